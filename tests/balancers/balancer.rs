//! A running load balancer: haproxy or nginx, with its file in `deploy` and the addresses of a test.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tonic::transport::Endpoint;

use crate::balancers::fleet::Addresses;
use crate::support::ports::free_port;
use crate::support::skipped::skipped;
use crate::support::timeout::wait_until;

/// A kind of load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Haproxy,
    Nginx,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Haproxy => "/usr/sbin/haproxy",
            Self::Nginx => "/usr/sbin/nginx",
        }
    }

    /// Returns whether it is installed. If it is not, a line says that the test is skipped.
    pub(crate) fn is_installed(self) -> bool {
        let is_installed = Path::new(self.program()).exists();
        if !is_installed {
            skipped(&format!("{} is not installed", self.program()));
        }
        is_installed
    }

    /// Returns the file in `deploy`, with other addresses. The lines of the second broker are copied for each further one.
    fn configuration(self, listen: SocketAddr, brokers: &[Addresses], folder: &Path) -> String {
        let file = match self {
            Self::Haproxy => include_str!("../../deploy/haproxy.cfg"),
            Self::Nginx => include_str!("../../deploy/nginx.conf"),
        };
        let mut text = String::new();
        for line in file.lines() {
            let is_server = line.contains("broker2:50051");
            let last = if is_server { brokers.len() } else { 2 };
            for number in 2..=last {
                let line = line.replace("broker2", &format!("broker{number}"));
                text += &line.replace("b2", &format!("b{number}"));
                text.push('\n');
            }
        }
        let mut replacements = match self {
            Self::Haproxy => vec![
                ("bind :50051".to_owned(), format!("bind {listen}")),
                (
                    "/run/haproxy/admin.sock".to_owned(),
                    folder.join("haproxy.sock").display().to_string(),
                ),
            ],
            Self::Nginx => vec![("listen 50051".to_owned(), format!("listen {listen}"))],
        };
        for (number, Addresses { grpc, admin }) in (1..).zip(brokers) {
            let name = format!("broker{number}:50051");
            if self == Self::Haproxy {
                let checked = |grpc: &str, admin: u16| {
                    format!("{grpc} proto h2 check check-proto h1 port {admin}")
                };
                let address = checked(&grpc.to_string(), admin.port());
                replacements.push((checked(&name, 9464), address));
            }
            replacements.push((name, grpc.to_string()));
        }
        for (old, new) in replacements {
            assert!(
                text.contains(&old),
                "{old:?} is not in the file of {self:?}"
            );
            text = text.replace(&old, &new);
        }
        text
    }
}

/// A running load balancer. Dropping it ends the process.
pub(crate) struct Balancer {
    child: Child,
    folder: PathBuf,
    pub(crate) address: SocketAddr,
}

impl Balancer {
    /// Starts a load balancer for these brokers on a free port, and waits until it accepts connections.
    pub(crate) async fn start(kind: Kind, brokers: &[Addresses], folder: &Path) -> Self {
        Self::listening_on(free_port(), kind, brokers, folder).await
    }

    /// Does the same on this address.
    pub(crate) async fn listening_on(
        address: SocketAddr,
        kind: Kind,
        brokers: &[Addresses],
        folder: &Path,
    ) -> Self {
        let path = folder.join("balancer.conf");
        std::fs::write(&path, kind.configuration(address, brokers, folder)).expect("a file");
        let log = File::create(folder.join("balancer.log")).expect("a file");
        let mut command = Command::new(kind.program());
        match kind {
            Kind::Haproxy => command.arg("-db").arg("-f").arg(&path),
            Kind::Nginx => {
                let (pid, log) = (folder.join("nginx.pid"), folder.join("nginx.log"));
                let (pid, log) = (pid.display(), log.display());
                let globals = format!("daemon off; pid {pid}; error_log {log};");
                command.args(["-g", &globals]).arg("-c").arg(&path)
            }
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("the load balancer starts");
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
        wait_until("the load balancer accepts connections", async || {
            endpoint.connect().await.is_ok()
        })
        .await;
        Self {
            child,
            folder: folder.to_owned(),
            address,
        }
    }

    /// Returns whether haproxy takes every broker that it checks for up, or every one for down. False before haproxy has its socket,
    /// which it makes after its port.
    pub(crate) fn takes_all_for(&self, status: &str) -> bool {
        let socket = self.folder.join("haproxy.sock");
        let Ok(mut socket) = UnixStream::connect(socket) else {
            return false;
        };
        socket.write_all(b"show stat\n").expect("a request");
        let mut table = String::new();
        socket.read_to_string(&mut table).expect("a table");
        // Name and status. A server without a check has the status "no check".
        let columns = |line: &str| {
            let fields: Vec<String> = line.split(',').map(str::to_owned).collect();
            (fields[1].clone(), fields[17].clone())
        };
        let rows = table.lines().filter(|line| line.starts_with("brokers,"));
        let mut servers = rows.map(columns).filter(|(name, status)| {
            name.starts_with('b') && name != "BACKEND" && status != "no check"
        });
        servers.all(|(_, of_server)| of_server == status)
    }

    /// Kills haproxy. Its connections are cut.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the load balancer runs");
        self.child.wait().expect("the load balancer ends");
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        // nginx ends its worker process only after a signal that it can handle.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.child.wait();
    }
}
