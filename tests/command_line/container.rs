//! The container image, as far as it can be tested without a container engine: `deploy/Dockerfile` is read, and its commands
//! are run as the image would run them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::certificates::Authority;
use crate::support::ports::free_port;
use crate::support::process::program;
use crate::support::signal;
use crate::support::timeout::wait_until_blocking;

const DOCKERFILE: &str = include_str!("../../deploy/Dockerfile");
const COMPOSE: &str = include_str!("../../deploy/compose.yaml");

/// Returns the last instruction of this kind in the final image, without its name. Lines that continue are joined.
fn instruction(name: &str) -> String {
    let (_, image) = DOCKERFILE.rsplit_once("\nFROM ").expect("a final image");
    let code: Vec<&str> = image
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let joined = code.join("\n").replace("\\\n", " ");
    let start = format!("{name} ");
    let found = joined
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(&start));
    found.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

/// Returns the words of a JSON array of texts.
fn words(array: &str) -> Vec<String> {
    serde_json::from_str(array.trim()).expect("an array of texts")
}

/// Copies a file or the contents of a folder, as COPY does.
fn copy(source: &Path, target: &Path) {
    if source.is_file() {
        fs::create_dir_all(target.parent().expect("a folder")).expect("created");
        fs::copy(source, target).expect("copied");
        return;
    }
    for entry in fs::read_dir(source).expect("a source of COPY") {
        let path = entry.expect("an entry").path();
        copy(&path, &target.join(path.file_name().expect("a name")));
    }
}

/// Copies the sources that the first stage of the Dockerfile copies.
fn copy_sources(target: &Path) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (stage, _) = DOCKERFILE.rsplit_once("\nFROM ").expect("two stages");
    for copied in stage.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        let words: Vec<&str> = copied.split_whitespace().collect();
        let (destination, sources) = words.split_last().expect("a destination");
        for source in sources {
            let place = if destination.ends_with('/') {
                target.join(destination).join(source)
            } else {
                target.join(destination)
            };
            copy(&project.join(source), &place);
        }
    }
}

/// A folder in the role of the container, and the environment of its processes.
struct Container {
    workspace: Workspace,
    environment: Vec<(&'static str, String)>,
}

impl Container {
    /// Prepares a container whose broker has TLS and demands a certificate of each client.
    fn with_tls() -> Self {
        let workspace = Workspace::with("");
        let folder = workspace.folder.path();
        let authority = Authority::new();
        authority.sign(&["broker.example"]).write(folder, "tls");
        workspace.write("clients.crt", &authority.pem());
        let [grpc, admin] = [free_port(), free_port()];
        let path = folder.display();
        // The admin port listens on all addresses, as in docs/observability.md.
        let settings = format!(
            "[server]\nlisten = '{grpc}'\ndrain_delay = '1h'\n[server.tls]\ncertificate = '{path}/tls.crt'\nkey = '{path}/tls.key'\n\
             client_authorities = '{path}/clients.crt'\nclient_certificates = 'required'\n\
             [auth]\nanonymous = ['admin']\n[admin]\nlisten = '0.0.0.0:{}'\n{QUEUES}",
            admin.port()
        );
        workspace.write("queues.toml", &settings);
        let config = workspace.path("queues.toml").display().to_string();
        Self {
            workspace,
            environment: vec![("LEASE_BROKER_CONFIG", config)],
        }
    }

    /// Builds a command that runs in the container. The first word is the program of the image.
    fn command(&self, words: &[String]) -> Command {
        assert!(words[0].ends_with("lease-broker"), "{words:?}");
        let mut command = program();
        command
            .args(&words[1..])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.workspace.folder.path());
        command
    }

    /// Starts the process of the container.
    fn start(&self) -> Broker {
        let words = [
            words(&instruction("ENTRYPOINT")),
            words(&instruction("CMD")),
        ];
        let mut command = self.command(&words.concat());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Broker(command.spawn().expect("the program starts"))
    }

    /// Runs the command of the image's health check.
    fn check_health(&self) -> Output {
        let check = instruction("HEALTHCHECK");
        let (_, command) = check.split_once("CMD ").expect("a command");
        let output = self.command(&words(command)).output();
        output.expect("the check runs")
    }
}

/// Killed when it is dropped.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn health_check_of_the_image_works_under_tls() {
    let container = Container::with_tls();
    assert_eq!(container.check_health().status.code(), Some(69));
    let broker = container.start();
    let mut last = None;
    wait_until_blocking("the check succeeds", || {
        let output = container.check_health();
        let is_healthy = output.status.success();
        last = Some(output);
        is_healthy
    });
    let printed = last.expect("a check ran").stdout;
    assert!(String::from_utf8_lossy(&printed).contains("SERVING"));
    signal::send(&broker.0, "TERM");
    wait_until_blocking("the check fails while the broker drains", || {
        let output = container.check_health();
        let reason = String::from_utf8_lossy(&output.stderr).contains("draining");
        output.status.code() == Some(1) && reason
    });
}

#[test]
fn file_of_a_default_container_is_in_its_volume() {
    let container = Container {
        workspace: Workspace::with(""),
        environment: vec![
            ("LEASE_BROKER_SERVER__LISTEN", free_port().to_string()),
            ("LEASE_BROKER_ADMIN__LISTEN", free_port().to_string()),
        ],
    };
    let _broker = container.start();
    wait_until_blocking("the broker is ready", || {
        container.check_health().status.success()
    });
    // The folder of the test is in the role of the working directory.
    assert!(container.workspace.path("lease-broker.db").exists());
    assert_eq!(instruction("VOLUME"), instruction("WORKDIR"));
    assert!(instruction("COPY").contains(&format!(" {}", instruction("VOLUME"))));
    assert!(instruction("COPY").contains("--chown=65532:65532"));
}

#[test]
fn image_runs_a_stripped_program_as_a_user_without_rights() {
    assert_eq!(instruction("USER"), "65532:65532");
    assert!(DOCKERFILE.contains(" --profile dist "));
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().expect("TOML");
    assert_eq!(manifest["profile"]["dist"]["strip"].as_bool(), Some(true));
}

#[test]
fn compose_file_passes_its_settings_to_the_health_check() {
    assert!(COMPOSE.contains("LEASE_BROKER_CONFIG: /etc/lease-broker/compose.toml"));
    assert!(!COMPOSE.contains("\"--config\""));
}

#[test]
fn image_copies_each_package_of_the_workspace() {
    let folder = tempfile::tempdir().expect("a folder");
    copy_sources(folder.path());
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .args(["--locked", "--offline", "--no-deps"])
        .current_dir(folder.path())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let dependencies = packages
        .iter()
        .filter_map(|package| package["dependencies"].as_array());
    for dependency in dependencies.flatten() {
        if let Some(path) = dependency["path"].as_str() {
            let manifest = Path::new(path).join("Cargo.toml");
            assert!(manifest.is_file(), "{}", manifest.display());
        }
    }
    // The lock file and the manifest of each package that no other package needs, such as the fuzz targets, are there too.
    assert!(folder.path().join("Cargo.lock").is_file());
}
