//! Runs a document as a reader would. `sql` or `tsql` blocks go to the database, `toml` blocks to the configuration file,
//! and `console` blocks to a shell. Other blocks are saved as files, if the paragraph before them names a file. If a command has
//! written the configuration file, a `toml` block shows its text.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::output::{matches, without_colours, without_volatile_parts};
use super::store::Store;
use crate::support::ports::free_port;
use crate::support::signal;

/// Time limit for a service to print the output shown, and for the retries of a command while the store is unavailable.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Session {
    /// The folder in which the commands run. It is in a temporary folder that is removed with the session.
    folder: PathBuf,
    root: tempfile::TempDir,
    /// Environment variables of the commands, in addition to those of the store.
    environment: Vec<(&'static str, PathBuf)>,
    /// The ports that the document names, with the free port that replaces each of them.
    ports: HashMap<String, u16>,
    services: Vec<Child>,
    store: Store,
    sql: String,
    /// The last `toml` block, with free ports.
    configuration: String,
}

/// A command and the output that the document shows for it.
struct Step {
    command: String,
    shown: Vec<String>,
}

impl Session {
    pub(crate) fn start(store: Store) -> Self {
        Self::start_in(store, tempfile::tempdir().expect("a folder"))
    }

    /// Starts in an empty folder that it makes below `root`.
    pub(crate) fn start_in(store: Store, root: tempfile::TempDir) -> Self {
        let folder = root.path().join("folder");
        std::fs::create_dir(&folder).expect("a folder");
        Self {
            folder,
            root,
            environment: Vec::new(),
            ports: HashMap::new(),
            services: Vec::new(),
            store,
            sql: String::new(),
            configuration: String::new(),
        }
    }

    /// Runs the document's blocks in order.
    pub(crate) fn run(&mut self, document: &str) {
        let mut rest = document;
        while let Some((before, after)) = rest.split_once("\n```") {
            let (kind, after) = after.split_once('\n').expect("a block begins with a line");
            let (block, after) = after.split_once("```").expect("a block ends");
            match kind {
                language if language == self.store.language() => self.run_sql(block),
                "toml" => self.configure(block),
                "console" => steps(block)
                    .into_iter()
                    .for_each(|step| self.run_step(&step)),
                language => {
                    if let Some(name) = file_name(before, language) {
                        self.save(name, block);
                    }
                }
            }
            rest = after;
        }
    }

    /// Runs SQL as another program. Before the configuration, which names the database, it only remembers it.
    fn run_sql(&mut self, sql: &str) {
        if self.configuration.is_empty() {
            self.sql.push_str(sql);
            std::fs::write(self.folder.join("orders.sql"), &self.sql).expect("a file");
        } else {
            self.store.run_sql(sql, &self.folder, &self.configuration);
        }
    }

    /// Creates the tables shown so far and saves the configuration.
    fn configure(&mut self, toml: &str) {
        self.configuration = self.with_free_ports(toml);
        if let Ok(written) = std::fs::read_to_string(self.folder.join("orders.toml")) {
            return assert_eq!(written, self.configuration);
        }
        self.store
            .make(&self.sql, &self.folder, &self.configuration);
        // The README and the recipes use different file names.
        for name in ["queues.toml", "orders.toml"] {
            std::fs::write(self.folder.join(name), &self.configuration)
                .expect("the configuration is saved");
        }
    }

    fn save(&mut self, name: &str, text: &str) {
        let text = self.with_free_ports(text);
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// Makes a folder of the repository visible where the commands run, as it is in a clone.
    pub(crate) fn show_folder(&self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        symlink(folder, self.folder.join(name)).expect("a link");
    }

    /// Makes the repository visible beside the folder where the commands run, as a clone with the name `lease-broker`.
    pub(crate) fn show_clone(&self) {
        let clone = self.root.path().join("lease-broker");
        symlink(env!("CARGO_MANIFEST_DIR"), clone).expect("a link");
    }

    /// Sets an environment variable of the commands.
    pub(crate) fn set_variable(&mut self, name: &'static str, path: PathBuf) {
        self.environment.push((name, path));
    }

    /// Returns the path of a file in the folder where the commands run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Stops the command that was last started in the background, as a supervisor would.
    pub(crate) fn stop_last_service(&mut self) -> ExitStatus {
        let mut service = self.services.pop().expect("a command in the background");
        signal::send(&service, "TERM");
        service.wait().expect("its status")
    }

    fn run_step(&mut self, step: &Step) {
        let command = step
            .command
            .replace("cargo run --release -- ", "lease-broker ");
        let command = self.with_free_ports(&command);
        eprintln!("$ {command}");
        if let Some(files) = command.strip_prefix("sqlite3 ") {
            return self.run_sqlite(files);
        }
        let shown: Vec<String> = step
            .shown
            .iter()
            .map(|line| without_volatile_parts(line))
            .collect();
        let output = self.root.path().join("output");
        if let Some(service) = command.strip_suffix(" &") {
            let output = format!("output-{}", self.services.len());
            let output = self.root.path().join(output);
            let service = self.shell(&format!("exec {service}"), &output).spawn();
            self.services.push(service.expect("the service starts"));
            let deadline = Instant::now() + TIMEOUT;
            // A broker can log a line before it listens.
            let has_started = |printed: &[String]| {
                let listens = printed.iter().any(|line| line.contains("listens on"));
                listens || !printed.is_empty() && !command.contains("lease-broker serve")
            };
            loop {
                let printed = self.printed(&output);
                // Handlers that run at the same time print in any order.
                let is_shown = matches(&shown, &printed) || sorted(&shown) == sorted(&printed);
                if has_started(&printed) && is_shown {
                    break;
                }
                assert!(Instant::now() < deadline, "{command} printed {printed:#?}");
                std::thread::sleep(Duration::from_millis(10));
            }
        } else {
            let deadline = Instant::now() + TIMEOUT;
            let patient = self.store.patient(&command);
            let printed = loop {
                let _ = self.shell(&patient, &output).status().expect("a shell");
                let printed = self.printed(&output);
                if !self.store.is_unavailable(&printed) || Instant::now() >= deadline {
                    break printed;
                }
            };
            assert!(
                matches(&shown, &printed),
                "{command}\nshown {shown:#?}\nprinted {printed:#?}"
            );
        }
    }

    /// Does the same as the program sqlite3 with the arguments `DATABASE < SQL`. The machine need not have that program.
    fn run_sqlite(&self, files: &str) {
        let (database, sql) = files.split_once(" < ").expect("DATABASE < SQL");
        let path = |file: &str| self.folder.join(file);
        let sql = std::fs::read_to_string(path(sql)).expect("the file");
        let connection = rusqlite::Connection::open(path(database)).expect("a database");
        connection.execute_batch(&sql).expect("valid SQL");
    }

    fn shell(&self, command: &str, output: &Path) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_lease-broker"));
        let path = std::env::var("PATH").unwrap_or_default();
        let file = File::create(output).expect("a file for the output");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .current_dir(&self.folder)
            .env(
                "PATH",
                format!("{}:{path}", binary.parent().expect("a folder").display()),
            )
            .envs(self.store.environment())
            .envs(self.environment.iter().cloned())
            .env("LEASE_BROKER_LOG__LEVEL", "error")
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .env(
                "LEASE_BROKER_ADDRESS",
                format!("http://127.0.0.1:{}", self.port("50051")),
            )
            .stdin(Stdio::null())
            .stderr(file.try_clone().expect("a second handle"))
            .stdout(file);
        // A service without `--listen` listens on the address that the clients of the document use.
        if command.starts_with("exec ") && !command.contains("--listen") {
            shell.env(
                "LEASE_BROKER_SERVER__LISTEN",
                format!("127.0.0.1:{}", self.listen_port()),
            );
        }
        shell
    }

    /// Returns the output of a command so far, with the ports of the document instead of the free ports.
    fn printed(&self, output: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(output).unwrap_or_default();
        let mut text = without_colours(&text);
        for (shown, free) in &self.ports {
            text = text.replace(&format!("127.0.0.1:{free}"), &format!("127.0.0.1:{shown}"));
        }
        let text = text.replace(" --address http://127.0.0.1:50051", "");
        let text = self.store.as_shown(&text, &self.configuration);
        // A page shows what a command found, not how to watch it meanwhile.
        text.lines()
            .filter(|line| !line.starts_with("lease-broker: operation "))
            .filter(|line| !is_of_a_slow_machine(line))
            .map(without_volatile_parts)
            .collect()
    }

    fn with_free_ports(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for shown in ["50051", "50052"] {
            let free = self.port_for(shown);
            text = text.replace(&format!("127.0.0.1:{shown}"), &format!("127.0.0.1:{free}"));
        }
        text
    }

    fn port_for(&mut self, shown: &str) -> u16 {
        let port = self.ports.entry(shown.to_owned());
        *port.or_insert_with(|| free_port().port())
    }

    fn port(&self, shown: &str) -> u16 {
        self.ports.get(shown).copied().unwrap_or_default()
    }

    /// Returns the port of a service without `--listen`: the one in the configuration, or else the default port.
    fn listen_port(&self) -> u16 {
        // `adopt` may have written the configuration.
        let written = std::fs::read_to_string(self.folder.join("orders.toml")).unwrap_or_default();
        let configuration = match &*self.configuration {
            "" => &written,
            shown => shown,
        };
        let listen = configuration.split_once("listen = \"127.0.0.1:");
        listen
            .and_then(|(_, port)| port.split('"').next()?.parse().ok())
            .unwrap_or_else(|| self.port("50051"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for service in &mut self.services {
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

/// Returns the name of the file that the last paragraph of a text names, for a block in a language.
fn file_name<'a>(text: &'a str, language: &str) -> Option<&'a str> {
    let extension = match language {
        "python" => ".py",
        "js" => ".mjs",
        "rust" => ".rs",
        "go" => ".go",
        "java" => ".java",
        "xml" => ".xml",
        _ => return None,
    };
    let (_, paragraph) = text.trim_end().rsplit_once("\n\n").unwrap_or(("", text));
    let quoted = paragraph.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.ends_with(extension)).last()
}

fn sorted(lines: &[String]) -> Vec<&String> {
    let mut lines: Vec<_> = lines.iter().collect();
    lines.sort_unstable();
    lines
}

/// Splits a `console` block into commands with their output.
fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step {
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command.extend(["\n", line]);
            }
            (None, Some(step)) => step.shown.push(line.to_owned()),
            (None, None) => panic!("output before the first command: {line}"),
        }
    }
    steps
}

/// Returns whether a worker library has printed the line because the first answer took more than 2 s. Java prints two lines.
fn is_of_a_slow_machine(line: &str) -> bool {
    let parts = [
        ".ConnectionHealth ",
        " have failed for ",
        " answers again after ",
    ];
    parts.iter().any(|part| line.contains(part))
}
