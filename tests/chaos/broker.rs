//! A broker process that is started again after each fault, as a supervisor does.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::balancers::fleet::Addresses;
use crate::chaos::plan::Plan;
use crate::support::http::is_ready;
use crate::support::signal;
use crate::support::timeout::TEST_TIMEOUT;

/// The time between two looks at a process.
const INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct Broker {
    pub(crate) addresses: Addresses,
    pub(crate) program: PathBuf,
    config: PathBuf,
    environment: Vec<(&'static str, String)>,
    child: Child,
}

impl Broker {
    /// Starts a broker of the plan with these settings, and waits until it is ready.
    pub(crate) async fn start(
        folder: &Path,
        name: &str,
        settings: &str,
        plan: &Plan,
        addresses: Addresses,
    ) -> Self {
        let config = folder.join(name).with_extension("toml");
        let Addresses { grpc, admin } = addresses;
        let text = format!("server.listen = '{grpc}'\nadmin.listen = '{admin}'\n{settings}");
        std::fs::write(&config, text).expect("a file");
        let program = plan.earlier.as_ref().unwrap_or(&plan.program).clone();
        let mut broker = Self {
            addresses,
            child: spawn(&program, &config, &plan.environment),
            program,
            config,
            environment: plan.environment.clone(),
        };
        broker.wait_until_ready().await;
        broker
    }

    /// Sends a signal, given by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        signal::send(&self.child, name);
    }

    /// Waits until the process has ended, then for `pause`, and starts it again.
    pub(crate) async fn restart_after_end(&mut self, pause: Duration) {
        let end = Instant::now() + TEST_TIMEOUT;
        while !self.has_ended() {
            assert!(Instant::now() < end, "the broker does not end");
            tokio::time::sleep(INTERVAL).await;
        }
        tokio::time::sleep(pause).await;
        self.child = spawn(&self.program, &self.config, &self.environment);
        self.wait_until_ready().await;
    }

    /// Waits until the broker is ready. Starts it again if it has ended, as it does if the store is not available.
    async fn wait_until_ready(&mut self) {
        let end = Instant::now() + TEST_TIMEOUT;
        while !self.is_ready() {
            assert!(
                Instant::now() < end,
                "the broker is not ready; its log: {}",
                std::fs::read_to_string(self.config.with_extension("log")).unwrap_or_default()
            );
            if self.has_ended() {
                self.child = spawn(&self.program, &self.config, &self.environment);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    fn is_ready(&self) -> bool {
        tokio::task::block_in_place(|| is_ready(self.addresses.admin))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, config: &Path, environment: &[(&'static str, String)]) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(config.with_extension("log"));
    let mut command = Command::new(program);
    command.env_clear();
    command.args(["serve", "--config"]).arg(config);
    for (name, value) in environment {
        command.env(name, value);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.expect("a file"))
        .spawn()
        .expect("the program starts")
}
