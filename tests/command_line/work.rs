//! Tests of `work`, which runs a command for each item.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command_line::workspace::Workspace;
use crate::support::database::query_value;
use crate::support::http::get;
use crate::support::ports::free_port;
use crate::support::process::{CommandOutput, PROGRAM, program};
use crate::support::skipped::skipped;
use crate::support::timeout::wait_until_blocking;

const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text', number = 'integer' }
backoff = { initial = '1h', max = '1h' }
[queues.outbox]
managed_columns = { payload = 'text' }
";

fn serving(payloads: &[&str]) -> Workspace {
    let mut workspace = Workspace::with(QUEUES);
    workspace.serve();
    for payload in payloads {
        let added = workspace.call(&format!("enqueue work --set payload={payload}"));
        assert_eq!(added.code, 0, "{added:?}");
    }
    workspace
}

fn work(workspace: &Workspace, flags: &[&str], command: &[&str]) -> Command {
    let mut started = program();
    let url = workspace.process.as_ref().expect("a service").url();
    started
        .args(["work", "work"])
        .args(flags)
        .arg("--")
        .args(command);
    started
        .env("LEASE_BROKER_ADDRESS", url)
        .current_dir(workspace.folder.path());
    started
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    started
}

/// Runs `work` to its end.
fn run(workspace: &Workspace, flags: &[&str], command: &[&str]) -> CommandOutput {
    let output = work(workspace, flags, command)
        .output()
        .expect("the program runs");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Returns state, attempt and error of the items, in the order of their keys.
fn rows(workspace: &Workspace) -> Vec<(i64, i64, String)> {
    let database = workspace.database();
    let sql = "SELECT lease_state, lease_attempt, coalesce(lease_error, '') FROM work ORDER BY id";
    let mut statement = database.prepare(sql).expect("the table exists");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.expect("the query runs")
        .collect::<Result<_, _>>()
        .expect("rows")
}

const READY: i64 = 0;
const DELAYED: i64 = 2;
const COMPLETED: i64 = 3;
const DEAD: i64 = 4;

#[test]
fn exit_code_of_the_command_settles_its_item() {
    let workspace = serving(&["0", "75", "65", "3", "kill"]);
    let script = "printf 'no\\tway\\n' >&2; [ \"$CODE\" = kill ] && kill -9 $$; exit \"$CODE\"";
    let flags = [
        "--until-empty",
        "--concurrency",
        "2",
        "--env",
        "payload=CODE",
    ];
    let printed = run(&workspace, &flags, &["/bin/sh", "-c", script]);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(printed.err.contains("1: no\tway\n"), "{printed:?}");
    let text = |text: &str| text.to_owned();
    let expected = [
        (COMPLETED, 1, text("")),
        (DELAYED, 1, text("Retry: exit code 75: no\\tway")),
        (DEAD, 1, text("DeadLetter: exit code 65: no\\tway")),
        (DELAYED, 1, text("exit code 3: no\\tway")),
        (DELAYED, 1, text("killed by signal 9: no\\tway")),
    ];
    assert_eq!(rows(&workspace), expected);
}

#[test]
fn command_reads_the_item_that_claim_prints() {
    let workspace = serving(&["x", "x"]);
    let printed = run(&workspace, &["--max-items", "1"], &["/bin/cat"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let read: serde_json::Value = serde_json::from_str(&printed.out).expect("one line of JSON");
    let mut claimed = workspace.call("claim work").json().remove(0);
    claimed["columns"]["id"] = 1.into();
    assert_eq!(read["columns"], claimed["columns"]);
    let names = |row: &serde_json::Value| -> Vec<String> {
        let names = row.as_object().expect("an object").keys();
        // Only `work` settles the item and extends its lease.
        let is_read = |name: &&String| !["lease_id", "expire_time"].contains(&name.as_str());
        names.filter(is_read).cloned().collect()
    };
    assert_eq!(names(&read), names(&claimed));
    assert_eq!((&read["key"], &read["attempt"]), (&"1".into(), &1.into()));
}

#[test]
fn environment_of_the_command_describes_the_item() {
    let workspace = serving(&["secret"]);
    let flags = ["--until-empty", "--worker", "me"];
    let printed = work(&workspace, &flags, &["/usr/bin/env"])
        // The broker exports no traces, and the producer has none.
        .env("TRACEPARENT", "of another item")
        .output()
        .expect("the program runs");
    assert!(printed.status.success(), "{printed:?}");
    let printed = String::from_utf8(printed.stdout).expect("UTF-8");
    let mut lines: Vec<_> = printed.lines().collect();
    lines.sort_unstable();
    let url = workspace.process.as_ref().expect("a service").url();
    assert_eq!(
        lines,
        [
            &*format!("LEASE_BROKER_ADDRESS={url}"),
            "LEASE_BROKER_ITEM_ATTEMPT=1",
            "LEASE_BROKER_ITEM_FENCING_TOKEN=1",
            "LEASE_BROKER_ITEM_KEY=1",
            "LEASE_BROKER_ITEM_MAX_ATTEMPTS=10",
            "LEASE_BROKER_ITEM_QUEUE=work",
            "LEASE_BROKER_ITEM_WORKER_ID=me",
        ]
    );
}

#[test]
fn printed_lines_become_follow_ups() {
    let workspace = serving(&["good", "bad"]);
    let script = "echo '{\"payload\": \"a\"}'; [ $PAYLOAD = bad ] && echo '[1]'; echo '{\"payload\": \"b\"}'";
    let flags = [
        "--until-empty",
        "--follow-up",
        "outbox",
        "--env",
        "payload=PAYLOAD",
    ];
    let printed = run(&workspace, &flags, &["/bin/sh", "-c", script]);
    assert_eq!((printed.code, &*printed.out), (0, ""), "{printed:?}");
    let added = "SELECT group_concat(payload, '') FROM (SELECT payload FROM outbox ORDER BY id)";
    assert_eq!(query_value::<String>(&workspace.database(), added), "ab");
    let ends = rows(&workspace);
    assert_eq!(ends[0].0, COMPLETED);
    assert!(
        ends[1]
            .2
            .contains("follow-up 2: an item must be a JSON object"),
        "{ends:?}"
    );
}

#[test]
fn follow_up_of_a_child_that_outlives_its_command_is_added() {
    let workspace = serving(&["x"]);
    // The output of other commands is read for 1 s after their end.
    let script = "(sleep 2; echo '{\"payload\": \"late\"}') & echo '{\"payload\": \"early\"}'";
    let flags = ["--until-empty", "--follow-up", "outbox"];
    let printed = run(&workspace, &flags, &["/bin/sh", "-c", script]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let added = "SELECT group_concat(payload, ' ') FROM (SELECT payload FROM outbox ORDER BY id)";
    let added: String = query_value(&workspace.database(), added);
    assert_eq!(added, "early late");
}

#[test]
fn follow_up_that_is_not_utf8_fails_its_item() {
    let workspace = serving(&["x"]);
    let script = r#"printf '{"payload":"caf\351"}\n'"#;
    let flags = ["--until-empty", "--follow-up", "outbox"];
    let printed = run(&workspace, &flags, &["/bin/sh", "-c", script]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let (state, _, error) = rows(&workspace).remove(0);
    assert_eq!(state, DELAYED);
    assert!(error.contains("follow-up 1: invalid"), "{error}");
}

#[test]
fn work_takes_only_items_of_the_groups_that_it_names() {
    let queue = "[queues.calls]\nmanaged_columns = { payload = 'text' }\ngroup = 'payload'\n";
    let mut workspace = Workspace::with(queue);
    workspace.serve();
    for payload in ["ada", "bob", "cyd", "ada"] {
        workspace.call(&format!("enqueue calls --set payload={payload}"));
    }
    let url = workspace.process.as_ref().expect("a service").url();
    let groups = "--group ada --group cyd";
    let printed = workspace.run(&format!(
        "work calls --until-empty {groups} --address {url} -- true"
    ));
    assert_eq!(printed.code, 0, "{printed:?}");
    let open = "SELECT group_concat(payload) FROM calls WHERE lease_state <> 3";
    let open: String = query_value(&workspace.database(), open);
    assert_eq!(open, "bob");
}

#[test]
fn command_that_cannot_run_ends_work_with_64() {
    let workspace = serving(&["x"]);
    for command in [&["/no/such/program"][..], &["/bin/sh", "-c", "exit 127"]] {
        let printed = run(&workspace, &[], command);
        assert_eq!(printed.code, 64, "{printed:?}");
        assert!(printed.err.contains(command[0]), "{printed:?}");
        assert_eq!(rows(&workspace), [(READY, 0, String::new())]);
    }
}

#[test]
fn command_can_call_the_broker_of_its_item() {
    let workspace = serving(&["a"]);
    let url = workspace.process.as_ref().expect("a service").url();
    let script = format!("{PROGRAM} enqueue outbox --set payload=of-$LEASE_BROKER_ITEM_KEY");
    // The list is for the worker. The command tries its addresses in turn.
    let list = format!("{url},127.0.0.1:9");
    for flags in [
        &["--until-empty"][..],
        &["--until-empty", "--address", &list],
    ] {
        let added = workspace.call("enqueue work --set payload=b");
        assert_eq!(added.code, 0, "{added:?}");
        let printed = run(&workspace, flags, &["/bin/sh", "-c", &script]);
        assert_eq!(printed.code, 0, "{printed:?}");
    }
    let ends: Vec<i64> = rows(&workspace).into_iter().map(|row| row.0).collect();
    assert_eq!(ends, [COMPLETED; 3], "{:?}", rows(&workspace));
    let added = "SELECT group_concat(payload, ' ') FROM (SELECT payload FROM outbox ORDER BY id)";
    let added: String = query_value(&workspace.database(), added);
    assert_eq!(added, "of-1 of-2 of-3");
}

#[test]
fn mistyped_column_releases_its_item_and_ends_with_64() {
    let workspace = serving(&["x", "x"]);
    let flags = ["--concurrency", "2", "--env", "paylaod=CODE"];
    let printed = run(&workspace, &flags, &["/bin/true"]);
    assert_eq!(printed.code, 64, "{printed:?}");
    for part in [
        "--env paylaod=CODE",
        "queue \"work\"",
        "did you mean payload?",
    ] {
        assert!(printed.err.contains(part), "{part}: {printed:?}");
    }
    let ready = (READY, 0, String::new());
    assert_eq!(rows(&workspace), [ready.clone(), ready]);
}

#[test]
fn mistyped_follow_up_queue_ends_with_64() {
    let workspace = serving(&["x"]);
    let printed = run(&workspace, &["--follow-up", "otbox"], &["/bin/true"]);
    assert_eq!(printed.code, 64, "{printed:?}");
    for part in ["--follow-up otbox", "not configured"] {
        assert!(printed.err.contains(part), "{part}: {printed:?}");
    }
    assert_eq!(rows(&workspace), [(READY, 0, String::new())]);
}

#[test]
fn variable_that_cannot_be_set_is_refused_at_the_start() {
    let workspace = serving(&["x"]);
    for env in [
        "payload=A=B",
        "payload=LEASE_BROKER_KEY",
        "payload=TRACEPARENT",
        "payload",
    ] {
        let printed = run(&workspace, &["--env", env], &["/bin/true"]);
        assert_eq!(printed.code, 64, "{printed:?}");
        assert!(printed.err.contains("--env"), "{printed:?}");
    }
    assert_eq!(rows(&workspace), [(READY, 0, String::new())]);
}

/// Reads lines until one contains this text. Returns the lines.
fn read_until(lines: &mut impl BufRead, part: &str) -> String {
    let mut read = String::new();
    while !read.contains(part) {
        let count = lines.read_line(&mut read).expect("text");
        assert!(count > 0, "{part:?} is not in {read}");
    }
    read
}

#[test]
fn work_warns_while_no_service_listens() {
    let workspace = Workspace::with("");
    let address = free_port().to_string();
    let mut child = program()
        .args([
            "work",
            "work",
            "--connect-timeout",
            "1h",
            "--address",
            &address,
        ])
        .args(["--", "/bin/true"])
        .current_dir(workspace.folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let warning = read_until(&mut errors, "trying for");
    let nothing = format!("nothing listens on {address}");
    assert!(warning.contains(&nothing), "{warning}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn work_shows_the_warnings_of_the_worker_library() {
    let mut workspace = serving(&["x"]);
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    let mut child = work(&workspace, &[], &["/bin/true"])
        .spawn()
        .expect("it starts");
    // This claim is lost with the service.
    wait_until_blocking("the item is completed, and the next claim waits", || {
        let waiting = "lease_broker_claim_waiting{lease_broker_queue_name=\"work\"} 1";
        rows(&workspace)[0].0 == COMPLETED && get(admin, "/metrics").body.contains(waiting)
    });
    workspace.process.as_mut().expect("a service").kill();
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    read_until(&mut errors, "disconnected");
    crate::support::signal::send(&child, "TERM");
    let log = read_until(&mut errors, "abandoned claims");
    assert!(log.contains("WARN"), "{log}");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn command_that_lacks_a_service_releases_its_item() {
    let workspace = serving(&["x"]);
    let begun = Instant::now();
    let printed = run(
        &workspace,
        &["--max-items", "1"],
        &["/bin/sh", "-c", "exit 69"],
    );
    assert_eq!(printed.code, 0, "{printed:?}");
    // The slot rests for 5 s, so that the item is not claimed again immediately.
    assert!(begun.elapsed() >= Duration::from_secs(5));
    assert_eq!(rows(&workspace), [(READY, 0, String::new())]);
}

#[test]
fn missing_service_ends_work_with_69() {
    let workspace = Workspace::with("");
    let address = free_port().to_string();
    let printed = workspace.run(&format!(
        "work work --address {address} --connect-timeout 1s -- /bin/true"
    ));
    assert_eq!(printed.code, 69, "{printed:?}");
    assert!(printed.err.contains(&address), "{printed:?}");
}

#[test]
fn refused_worker_ends_work_with_1() {
    let refused = run(
        &serving(&[]),
        &["--until-empty", "--lease", "1ms"],
        &["/bin/true"],
    );
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("lease_duration"), "{refused:?}");
    assert_eq!(refused.err.lines().count(), 1, "{refused:?}");
}

#[test]
fn time_limit_ends_the_process_group() {
    let workspace = serving(&["x"]);
    let begun = Instant::now();
    let flags = ["--until-empty", "--time-limit", "300ms"];
    // The shell waits for a child of its own.
    let printed = run(&workspace, &flags, &["/bin/sh", "-c", "sleep 600; true"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(begun.elapsed() < Duration::from_secs(300));
    let cause = "cancelled: item 1: the time limit has passed\n";
    assert!(printed.err.contains(cause), "{printed:?}");
    assert_eq!(
        rows(&workspace),
        [(DELAYED, 1, "time limit of 0.3 s".to_owned())]
    );
}

/// Waits until the process has ended whose number is in this file. A process that nobody has waited for has ended, too.
fn wait_for_end(workspace: &Workspace, file: &str) {
    let id = std::fs::read_to_string(workspace.path(file)).expect("a number");
    wait_until_blocking("the process has ended", || {
        let found = Command::new("ps")
            .args(["-o", "stat=", "-p", id.trim()])
            .output();
        let state = found.expect("ps runs").stdout;
        state.is_empty() || state.starts_with(b"Z")
    });
}

/// Waits until `work` has ended by itself. Returns its exit code.
fn end_of(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_until_blocking("work has ended", || {
        status = child.try_wait().expect("its state is known");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

#[test]
fn child_that_ignores_sigterm_is_killed_with_its_command() {
    let workspace = serving(&["x"]);
    let script = "(trap '' TERM; exec sleep 600) & echo $! > child; wait";
    let flags = ["--until-empty", "--time-limit", "300ms"];
    let printed = run(&workspace, &flags, &["/bin/sh", "-c", script]);
    assert_eq!(printed.code, 0, "{printed:?}");
    wait_for_end(&workspace, "child");
}

#[test]
fn output_that_is_not_read_stops_neither_limit_nor_signal() {
    for script in ["echo $$ > yes; exec yes", "echo $$ > yes; exec yes >&2"] {
        let workspace = serving(&["x"]);
        let flags = ["--time-limit", "300ms", "--grace", "100ms"];
        let mut child = work(&workspace, &flags, &["/bin/sh", "-c", script])
            .spawn()
            .expect("it starts");
        wait_until_blocking("the item has failed", || rows(&workspace)[0].0 == DELAYED);
        wait_for_end(&workspace, "yes");
        crate::support::signal::send(&child, "TERM");
        assert_eq!(end_of(&mut child), Some(0), "{script}");
    }
}

#[test]
fn output_waits_for_its_reader_after_the_last_item() {
    let workspace = serving(&["x"]);
    // More than a pipe and the lines that wait hold.
    let command = ["/bin/sh", "-c", "seq 100000"];
    let mut child = work(&workspace, &["--until-empty"], &command)
        .spawn()
        .expect("it starts");
    let mut output = child.stdout.take().expect("a pipe");
    let mut first = [0; 2];
    output.read_exact(&mut first).expect("a line");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(rest.ends_with("\n100000\n"));
    assert_eq!(end_of(&mut child), Some(0));
}

#[test]
fn output_of_a_command_is_not_changed_in_a_pipe() {
    let workspace = serving(&["x"]);
    let script = r"printf 'a\033[31mb\r\n'; printf 'c\033[31m\n' >&2";
    let printed = run(&workspace, &["--until-empty"], &["/bin/sh", "-c", script]);
    assert_eq!(printed.out, "a\u{1b}[31mb\r\n");
    assert_eq!(printed.err, "c\u{1b}[31m\n");
}

#[test]
fn key_cannot_forge_a_line_on_standard_error() {
    let mut workspace = Workspace::with("[queues.work]\n");
    let table = "CREATE TABLE work (id TEXT PRIMARY KEY, v TEXT);
        INSERT INTO work VALUES ('a' || char(27) || '[31m' || char(10) || 'lease-broker: forged', 'x')";
    workspace.database().execute_batch(table).expect("a table");
    let applied = workspace.store("schema apply");
    assert_eq!(applied.code, 0, "{applied:?}");
    workspace.serve();
    let flags = ["--max-items", "1", "--concurrency", "2"];
    let printed = run(
        &workspace,
        &flags,
        &["/bin/sh", "-c", "echo no >&2; exit 65"],
    );
    let key = r"a\u{1b}[31m\u{a}lease-broker: forged";
    let own = format!("{key}: no\n");
    assert!(printed.err.contains(&own), "{printed:?}");
    let report = format!("lease-broker: failed: item {key}: DeadLetter");
    assert!(printed.err.contains(&report), "{printed:?}");
    assert!(!printed.err.contains('\u{1b}'), "{printed:?}");
}

#[test]
fn null_column_unsets_its_variable() {
    let workspace = serving(&[]);
    assert_eq!(workspace.call("enqueue work --set number=1").code, 0);
    let flags = ["--until-empty", "--env", "payload=CUSTOMER"];
    let script = "echo ${CUSTOMER-unset}";
    let printed = work(&workspace, &flags, &["/bin/sh", "-c", script])
        .env("CUSTOMER", "of work")
        .output()
        .expect("the program runs");
    assert_eq!(printed.stdout, b"unset\n", "{printed:?}");
}

#[test]
fn terminal_that_closes_stops_work_in_order() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap_or("0").trim(), 16).expect("a mask");
    for (number, signal) in [(1, "HUP"), (3, "QUIT")] {
        if ignored & 1 << (number - 1) != 0 {
            // A shell does so for programs in the background, and `work` keeps it.
            skipped(&format!("this process ignores SIG{signal}"));
            continue;
        }
        let workspace = serving(&["x"]);
        let script = "echo started > started; exec sleep 600";
        let command = ["/bin/sh", "-c", script];
        let mut child = work(&workspace, &["--grace", "100ms"], &command)
            .spawn()
            .expect("it starts");
        wait_until_blocking("the command runs", || workspace.path("started").exists());
        crate::support::signal::send(&child, signal);
        assert_eq!(end_of(&mut child), Some(0), "{signal}");
        assert_eq!(rows(&workspace), [(READY, 0, String::new())], "{signal}");
    }
}

#[test]
fn sighup_that_is_ignored_does_not_stop_work() {
    let workspace = serving(&["x", "x"]);
    let command = work(
        &workspace,
        &["--until-empty"],
        &[
            "/bin/sh",
            "-c",
            "echo started > started; while [ ! -e go ]; do sleep 0.05; done",
        ],
    );
    let url = workspace.process.as_ref().expect("a service").url();
    let mut child = Command::new("/bin/sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", PROGRAM])
        .args(command.get_args())
        .env("LEASE_BROKER_ADDRESS", url)
        .current_dir(workspace.folder.path())
        .spawn()
        .expect("it starts");
    wait_until_blocking("the command runs", || workspace.path("started").exists());
    crate::support::signal::send(&child, "HUP");
    workspace.write("go", "");
    assert_eq!(end_of(&mut child), Some(0));
    let states: Vec<_> = rows(&workspace).iter().map(|row| row.0).collect();
    assert_eq!(states, [COMPLETED; 2]);
}

#[test]
fn program_that_is_being_written_releases_its_item() {
    let workspace = serving(&["x"]);
    std::fs::copy("/bin/true", workspace.path("app")).expect("a copy");
    let mut written = std::fs::File::options();
    let written = written.append(true).open(workspace.path("app"));
    let written = written.expect("the copy");
    let mut child = work(&workspace, &["--until-empty"], &["./app"])
        .spawn()
        .expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let released = read_until(&mut errors, "Text file busy");
    assert!(released.contains("released: item 1"), "{released}");
    drop(written);
    assert_eq!(end_of(&mut child), Some(0));
    assert_eq!(rows(&workspace)[0].0, COMPLETED);
}

#[test]
fn paused_queue_is_named_when_no_item_comes() {
    let workspace = serving(&["x"]);
    assert_eq!(workspace.call("pause work").code, 0);
    let printed = run(&workspace, &["--until-empty"], &["/bin/true"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(printed.err.contains("queue is paused"), "{printed:?}");
}

#[test]
fn stopped_work_waits_for_its_command() {
    let workspace = serving(&["x", "x"]);
    let script = "echo started > started; while [ ! -e go ]; do sleep 0.05; done";
    let mut child = work(&workspace, &[], &["/bin/sh", "-c", script])
        .spawn()
        .expect("it starts");
    wait_until_blocking("the command runs", || workspace.path("started").exists());
    let signalled = Command::new("kill").arg(child.id().to_string()).status();
    assert!(signalled.expect("kill runs").success());
    workspace.write("go", "");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let states: Vec<_> = rows(&workspace).iter().map(|row| row.0).collect();
    assert_eq!(states, [COMPLETED, READY]);
}

#[test]
fn stopped_work_releases_an_item_after_the_grace() {
    let workspace = serving(&["x"]);
    let script = "echo started > started; exec sleep 60";
    let mut child = work(
        &workspace,
        &["--grace", "100ms"],
        &["/bin/sh", "-c", script],
    )
    .spawn()
    .expect("it starts");
    wait_until_blocking("the command runs", || workspace.path("started").exists());
    let signalled = Command::new("kill").arg(child.id().to_string()).status();
    assert!(signalled.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(rows(&workspace), [(READY, 0, String::new())]);
}
