//! Tests of `--help`, `--version` and `completions`.

use std::process::Command;

use crate::command_line::workspace::Workspace;
use crate::support::skipped::skipped;

const COMMANDS: [&str; 40] = [
    "serve",
    "demo",
    "schema plan",
    "schema apply",
    "schema check",
    "enqueue",
    "work",
    "claim",
    "heartbeat",
    "complete",
    "fail",
    "release",
    "health",
    "doctor",
    "top",
    "stats",
    "list",
    "show",
    "why",
    "pause",
    "resume",
    "limits",
    "groups list",
    "groups pause",
    "groups resume",
    "redrive",
    "cancel",
    "purge",
    "operations",
    "operations cancel",
    "operations continue",
    "brokers",
    "drain",
    "secret rotate",
    "backup",
    "restore",
    "token new",
    "auth check",
    "auth revoke",
    "completions",
];

#[test]
fn help_of_every_command_has_examples() {
    let workspace = Workspace::with("");
    let help = workspace.run("--help");
    assert!(help.out.contains("Examples:"), "{help:?}");
    for command in COMMANDS {
        let name = command.split(' ').next().expect("a name");
        assert!(
            help.out.contains(&format!("\n  {name} ")),
            "{name} is not in {help:?}"
        );
        for help in [format!("{command} --help"), format!("{command} -h")] {
            let printed = workspace.run(&help);
            assert_eq!(printed.code, 0, "{printed:?}");
            assert!(printed.out.contains("Examples:"), "{help}: {printed:?}");
            let example = format!("  lease-broker {command}");
            let piped = format!("| lease-broker {command}");
            let shown = printed.out.contains(&example) || printed.out.contains(&piped);
            assert!(shown, "{help}: {printed:?}");
        }
    }
}

#[test]
fn headings_stand_over_their_own_flags() {
    let headings = [
        ("Filter:", "owner error since before min-attempt column"),
        (
            "Credentials:",
            "ca certificate key server-name token-file plaintext",
        ),
    ];
    let workspace = Workspace::with("");
    let mut seen = 0;
    for command in COMMANDS {
        let help = workspace.run(&format!("{command} -h")).out;
        for (heading, own) in headings {
            let Some((_, part)) = help.split_once(&format!("\n{heading}\n")) else {
                continue;
            };
            let part = part.lines().take_while(|line| !line.is_empty());
            let flags = part.filter_map(|line| line.trim_start().strip_prefix("--"));
            let flags: Vec<&str> = flags
                .filter_map(|flag| flag.split_whitespace().next())
                .collect();
            let own: Vec<&str> = own.split(' ').collect();
            assert_eq!(flags, own, "{command} {heading}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

/// The texts after the flags are wrapped by the width of the terminal. A text that is also wrapped by hand has short lines in its middle,
/// and a table that is too wide for a terminal of 100 columns is broken.
#[test]
fn texts_after_the_flags_are_wrapped_once() {
    let workspace = Workspace::with("");
    for command in COMMANDS {
        let help = workspace.run(&format!("{command} --help")).out;
        let (_, text) = help.split_once("Print help").expect("the last flags");
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let [line, next] = pair else { continue };
            let is_text = !line.is_empty() && !next.is_empty() && !next.starts_with("  ");
            let ends_early = line.chars().count() < 75 && !line.ends_with(':');
            assert!(!(is_text && ends_early), "{command}: {line:?}, {next:?}");
        }
    }
}

#[test]
fn every_example_is_valid() {
    let workspace = Workspace::with("");
    let help = COMMANDS
        .map(|command| workspace.run(&format!("{command} --help")).out)
        .concat();
    let mut seen = 0;
    for line in help.lines().filter(|line| line.starts_with("  ")) {
        let Some(example) = line.split_once("lease-broker ").map(|(_, rest)| rest) else {
            continue;
        };
        if !line.trim_start().starts_with("lease-broker") || example.contains("//") {
            continue;
        }
        // The example ends before a comment, a pipe or a redirection. With --help the program checks only its flags.
        let end = example
            .find("   ")
            .into_iter()
            .chain(example.find(" -- "))
            .chain(example.find(" |"))
            .chain(example.find(" >"));
        let example = &example[..end.min().unwrap_or(example.len())];
        let example = example
            .replace('\'', "")
            .replace("{\"payload\": \"shipped\"}", "{}");
        let words: Vec<&str> = example.split_whitespace().chain(["--help"]).collect();
        let printed = crate::support::process::run(workspace.folder.path(), &words);
        assert_eq!(printed.code, 0, "{example}: {printed:?}");
        seen += 1;
    }
    assert!(seen >= 14, "{seen}");
}

#[test]
fn version_is_printed() {
    let workspace = Workspace::with("");
    let version = workspace.run("--version");
    assert_eq!(
        version.out,
        format!("lease-broker {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn completion_scripts_are_valid() {
    let workspace = Workspace::with("");
    for shell in ["bash", "zsh", "fish"] {
        let script = workspace.run(&format!("completions {shell}"));
        assert_eq!(script.code, 0, "{script:?}");
        assert!(script.out.contains("COMPLETE"), "{shell}");
        workspace.write(shell, &script.out);
        match Command::new(shell)
            .arg("-n")
            .arg(workspace.path(shell))
            .status()
        {
            Ok(status) => assert!(status.success(), "{shell}"),
            Err(error) => skipped(&format!("no {shell} to read its completions ({error})")),
        }
    }
}

#[cfg(unix)]
#[test]
fn closed_output_pipe_is_ignored() {
    use std::process::Stdio;

    let workspace = Workspace::with(crate::command_line::workspace::QUEUES);
    for arguments in [
        &[
            "schema",
            "plan",
            "--config",
            "queues.toml",
            "--store",
            "q.db",
        ][..],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut child = crate::support::process::program()
            .args(arguments)
            .current_dir(workspace.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
}
