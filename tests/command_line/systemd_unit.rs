//! `deploy/lease-broker.service`, without systemd: its command runs in a root folder in which it finds what systemd would give it,
//! as a user without rights that can write to its state folder alone.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::command_line::workspace::QUEUES;
use crate::support::ports::free_port;
use crate::support::process::{PROGRAM, run};
use crate::support::signal;
use crate::support::skipped::skipped;
use crate::support::timeout::TEST_TIMEOUT;

const UNIT: &str = include_str!("../../deploy/lease-broker.service");
/// One of the users that systemd gives to units with `DynamicUser`.
const USER: u32 = 61184;
const CREDENTIALS: &str = "/run/credentials/lease-broker.service";

/// Runs a command as the user `$2` in the root folder `$1`, with the program `$3` in its place. All but the state folder is
/// read-only. The mounts belong to this process, and end with it.
const AS_SYSTEMD: &str = r#"
set -e
root=$1 user=$2 program=$3
shift 3
for folder in lib lib64 usr/lib proc dev; do
  [ -d "/$folder" ] || continue
  mkdir -p "$root/$folder"
  mount --rbind "/$folder" "$root/$folder"
done
mkdir -p "$root/usr/bin"
for file in setpriv env; do
  touch "$root/usr/bin/$file"
  mount --bind "$(realpath "$(command -v "$file")")" "$root/usr/bin/$file"
done
touch "$root/usr/bin/lease-broker"
mount --bind "$program" "$root/usr/bin/lease-broker"
mkdir "$root.read-only"
mount --rbind "$root" "$root.read-only"
mount -o remount,bind,ro "$root.read-only"
mount --bind "$root/var/lib/lease-broker" "$root.read-only/var/lib/lease-broker"
umask 0077
exec chroot "$root.read-only" /usr/bin/setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \
  --bounding-set -all --inh-caps -all "$@"
"#;

/// Returns the values of a key of the unit, in order.
fn values(key: &str) -> Vec<&'static str> {
    let prefix = format!("{key}=");
    let lines = UNIT.lines();
    lines
        .filter_map(|line| line.strip_prefix(&prefix))
        .collect()
}

/// Returns the only value of a key of the unit.
fn value(key: &str) -> &'static str {
    let values = values(key);
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values[0]
}

/// Replaces the specifiers of systemd.
fn expanded(text: &str) -> String {
    let text = text.replace("%d", CREDENTIALS).replace("%S", "/var/lib");
    assert!(!text.contains('%'), "unknown specifier: {text}");
    text
}

/// A host on which the unit is installed.
struct Host {
    /// Has the folder `root`, and the place where it is mounted read-only.
    folder: tempfile::TempDir,
    manager: UnixDatagram,
}

impl Host {
    /// Installs the unit with a configuration. `None`, with a line that says so, if this user may not mount or change users.
    fn with(configuration: &str, connection_string: Option<&str>) -> Option<Self> {
        let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || !may_mount.is_ok_and(|output| output.status.success()) {
            skipped("the unit of systemd: only root can mount its folders and change to its user");
            return None;
        }
        if let Err(error) = Command::new("setpriv").arg("--version").output() {
            skipped(&format!("the unit of systemd: no setpriv ({error})"));
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        for name in ["etc/lease-broker", "run/systemd", "var/lib", "tmp"] {
            std::fs::create_dir_all(root.join(name)).expect("a folder");
        }
        std::fs::write(root.join("etc/lease-broker/queues.toml"), configuration).expect("a file");
        let manager = UnixDatagram::bind(root.join("run/systemd/notify")).expect("a socket");
        let limit = manager.set_read_timeout(Some(TEST_TIMEOUT));
        limit.expect("a time limit");
        allow(&root.join("run/systemd/notify"), 0o777);
        let host = Self { folder, manager };
        if let Some(text) = connection_string {
            host.write_secret("etc/lease-broker/connection-string", text);
        }
        host.make_folders();
        Some(host)
    }

    fn path(&self, name: &str) -> PathBuf {
        let name = name.trim_start_matches('/');
        self.folder.path().join("root").join(name)
    }

    /// Writes a file that only root can read.
    fn write_secret(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
        allow(&self.path(name), 0o600);
    }

    /// Makes the folders of the unit as systemd does: the state, which the user owns, and the credentials, which it can read.
    fn make_folders(&self) {
        assert_eq!(value("DynamicUser"), "yes");
        let state = self.path(&format!("/var/lib/{}", value("StateDirectory")));
        std::fs::create_dir(&state).expect("a folder");
        let mode = u32::from_str_radix(value("StateDirectoryMode"), 8);
        give(&state, mode.expect("a mode"));
        let (id, source) = value("LoadCredential").split_once(':').expect("ID:PATH");
        let (default_id, default) = value("SetCredential").split_once(':').expect("ID:VALUE");
        assert_eq!(id, default_id);
        let loaded = std::fs::read_to_string(self.path(source));
        let folder = self.path(CREDENTIALS);
        std::fs::create_dir_all(&folder).expect("a folder");
        let credential = folder.join(id);
        std::fs::write(&credential, loaded.as_deref().unwrap_or(default)).expect("a file");
        give(&credential, 0o400);
        give(&folder, 0o500);
    }

    /// Starts the command of the unit.
    fn start(&self) -> Service {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", AS_SYSTEMD, "sh"]);
        command.arg(self.path("")).arg(USER.to_string());
        command.arg(PROGRAM);
        // The folder in which it runs.
        command.args(["/usr/bin/env", "-i", "-C"]);
        command.arg(expanded(value("WorkingDirectory")));
        command.arg("NOTIFY_SOCKET=/run/systemd/notify");
        command.arg(format!(
            "WATCHDOG_USEC={}",
            duration("WatchdogSec").as_micros()
        ));
        command.arg(format!("CREDENTIALS_DIRECTORY={CREDENTIALS}"));
        command.args(values("Environment").into_iter().map(expanded));
        command.args(expanded(value("ExecStart")).split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.expect("unshare starts");
        let log = child.stderr.take().expect("standard error is piped");
        Service(child, BufReader::new(log))
    }

    /// Returns the next message to the service manager.
    fn heard(&self, service: &mut Service) -> String {
        let mut message = [0; 256];
        let length = self.manager.recv(&mut message).unwrap_or_else(|error| {
            let _ = service.0.kill();
            panic!(
                "no message to the service manager: {error}: {:?}",
                service.end()
            );
        });
        String::from_utf8_lossy(&message[..length])
            .trim()
            .to_owned()
    }
}

/// The process of the unit, and its log. Killed when it is dropped.
struct Service(Child, BufReader<ChildStderr>);

impl Service {
    /// Waits for a line of the log with this text, and returns the line.
    fn wait_for_line(&mut self, text: &str) -> String {
        let lines = self.1.by_ref().lines();
        let mut lines = lines.map(|line| line.expect("text"));
        let found = lines.find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("the log has ended without {text:?}"))
    }

    /// Waits for the end, and returns the exit code and the rest of the log.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.1.read_to_string(&mut log).expect("text");
        (self.0.wait().expect("the process ends").code(), log)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn allow(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("permissions");
}

/// Makes the user of the unit the owner.
fn give(path: &Path, mode: u32) {
    chown(path, Some(USER), Some(USER)).expect("an owner");
    allow(path, mode);
}

/// Returns a duration of the unit, such as `40s`.
fn duration(key: &str) -> Duration {
    let seconds = value(key).strip_suffix('s').expect("seconds");
    Duration::from_secs(seconds.parse().expect("a number"))
}

#[test]
fn command_of_the_unit_serves_as_its_user() {
    let [grpc, admin] = [free_port(), free_port()];
    let settings = format!("[server]\nlisten = '{grpc}'\n[admin]\nlisten = '{admin}'\n{QUEUES}");
    let Some(host) = Host::with(&settings, None) else {
        return;
    };
    let mut service = host.start();
    assert_eq!(host.heard(&mut service), "READY=1");
    // systemd waits for the next one for as long as `WatchdogSec` says.
    assert_eq!(host.heard(&mut service), "WATCHDOG=1");
    let address = format!("http://{grpc}");
    let arguments = [
        "enqueue",
        "work",
        "--set",
        "payload=x",
        "--address",
        &address,
    ];
    let added = run(host.folder.path(), &arguments);
    assert_eq!(added.code, 0, "{added:?}");
    let database = host.path("/var/lib/lease-broker/lease-broker.db");
    let database = std::fs::metadata(database).expect("the file of the database");
    assert_eq!(database.uid(), USER);
    signal::send(&service.0, "TERM");
    while host.heard(&mut service) != "STOPPING=1" {}
    let (code, log) = service.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn unit_passes_the_connection_string_as_a_credential() {
    let server = free_port().to_string().replace(':', ",");
    let text =
        format!("server={server};database=Work;user id=a;password=b;TrustServerCertificate=true");
    let settings = "[store]\nkind = 'mssql'\n[queues.work]\ntable = 'dbo.Work'\n";
    let Some(host) = Host::with(settings, Some(&text)) else {
        return;
    };
    // No server listens. The warning shows that the string was read.
    let mut service = host.start();
    let warning = service.wait_for_line("the broker starts when the database can be used");
    assert!(warning.contains(&server.replace(',', ":")), "{warning}");
    assert!(!warning.contains("password"), "{warning}");
    signal::send(&service.0, "TERM");
    let (code, log) = service.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn unit_does_not_restart_after_a_wrong_configuration() {
    let Some(host) = Host::with("[queues.work]\nmax_attempts = 'many'", None) else {
        return;
    };
    let (code, log) = host.start().end();
    let code = code.expect("an exit code").to_string();
    assert_eq!(value("RestartPreventExitStatus"), code, "{log}");
    assert!(log.contains("max_attempts"), "{log}");
}
