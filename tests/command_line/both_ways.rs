//! The commands for operators do the same at the service and on the database.

use serde_json::{Value, json};

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::process::{CommandOutput, program};
use crate::support::timeout::wait_until_blocking;

/// Runs a command at the service and on the database.
pub(crate) fn both(workspace: &Workspace, arguments: &str) -> [CommandOutput; 2] {
    let url = workspace.process.as_ref().expect("a service").url();
    [
        workspace.run(&format!("{arguments} --address {url}")),
        workspace.store(arguments),
    ]
}

/// Returns the lines of JSON output without the fields and the numbers in causes that change from one moment to the next.
fn stable(output: &CommandOutput) -> Vec<Value> {
    let mut lines = output.json();
    for line in &mut lines {
        let fields = line.as_object_mut().expect("an object");
        fields.retain(|name, _| {
            !name.ends_with("_seconds")
                && !name.ends_with("_per_second")
                && !["is_self", "seen_time", "waiting_claims"].contains(&&**name)
        });
        if let Some(Value::Array(causes)) = fields.get_mut("causes") {
            for cause in causes {
                let text = cause.as_str().expect("text");
                *cause = text
                    .replace(|character: char| character.is_ascii_digit(), "")
                    .into();
            }
        }
    }
    lines
}

#[test]
fn looks_are_the_same_both_ways() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    workspace.call(&format!("fail work {id} --error broken --dead-letter"));
    workspace.lease();
    workspace.call("pause outbox --reason later");
    for command in [
        "stats",
        "stats --exact",
        "list work",
        "list work --state dead --newest",
        "list work --state dead --error rok --since 1h --limit all",
        "list work --state dead --before 1h",
        "show work 1",
        "show work 2",
        "operations",
        "brokers",
    ] {
        let [service, database] = both(&workspace, &format!("{command} --output json"));
        assert_eq!(service.code, 0, "{service:?}");
        assert_eq!(stable(&service), stable(&database), "{command}");
        let [service, database] = both(&workspace, command);
        assert_eq!(
            (service.code, database.code),
            (0, 0),
            "{service:?} {database:?}"
        );
        let header = |output: &CommandOutput| {
            let line = output.out.lines().next().map(str::to_owned);
            line.map(|line| {
                line.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(header(&service), header(&database), "{command}");
    }
}

#[test]
fn errors_are_the_same_both_ways() {
    let workspace = Workspace::serving();
    for (command, code, part) in [
        ("list wrok", 64, "did you mean work?"),
        ("show work x", 1, "key"),
        ("show work 77", 1, "ITEM_NOT_FOUND"),
        ("pause wrok", 64, "configured are outbox, work"),
        ("list work --column payload=x", 1, "filterable"),
        (
            "operations 00000000-0000-4000-8000-000000000000",
            1,
            "OPERATION_NOT_FOUND",
        ),
        ("operations cancel nothing", 1, "operation_id"),
        ("drain nobody", 1, "lease-broker brokers"),
        ("redrive wrok --yes", 64, "did you mean work?"),
        ("cancel work x --reason y", 1, "x: "),
        ("list work --newest", 64, "--state dead"),
    ] {
        let [service, database] = both(&workspace, command);
        assert_eq!(service.code, code, "{command}: {service:?}");
        assert!(service.err.contains(part), "{command}: {service:?}");
        assert_eq!(
            (database.code, database.err),
            (service.code, service.err),
            "{command}"
        );
    }
}

#[test]
fn show_has_columns_lease_and_trace() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=hello --set number=5");
    workspace.call("claim work --worker somebody --lease 1h");
    let [service, _] = both(&workspace, "show work 1 --output json");
    let item = &service.json()[0];
    assert_eq!(
        item["columns"],
        json!({"id": 1, "payload": "hello", "number": 5})
    );
    assert_eq!(
        (&item["state"], &item["owner"], &item["attempt"]),
        (&json!("leased"), &json!("somebody"), &json!(1))
    );
    // Nobody records a trace here.
    assert!(item["trace_id"].is_null(), "{item}");
    assert!(
        item["due_in_seconds"]
            .as_f64()
            .is_some_and(|left| left > 3_000.0)
    );
    assert!(item["causes"][0].is_string(), "{item}");
    let [table, _] = both(&workspace, "show work 1");
    for line in [
        "column payload    hello",
        "owner             somebody",
        "cause ",
    ] {
        assert!(table.out.contains(line), "{line}: {table:?}");
    }
}

/// Returns a printed line without the user whom only a change of the database itself names.
fn without_user(line: &str) -> &str {
    let line = line.trim_end();
    line.split_once("; by database:")
        .map_or(line, |(line, _)| line)
}

#[test]
fn pause_and_resume_work_both_ways() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    let url = workspace.process.as_ref().expect("a service").url();
    let service = format!("--address {url}");
    for way in [&service, "--config queues.toml --store q.db"] {
        let paused = workspace.run(&format!("pause work --mode both --reason later {way}"));
        assert_eq!(paused.code, 0, "{paused:?}");
        let text = "queue work is paused: it gives no leases and refuses new items; reason: later";
        assert_eq!(without_user(&paused.out), text);
        let empty: [Value; 0] = [];
        assert_eq!(workspace.call("claim work").json(), empty);
        let refused = workspace.call("enqueue work --set payload=x");
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("QUEUE_PAUSED"), "{refused:?}");
        let stats = workspace.run(&format!("stats --output json {way}")).json();
        let work = stats
            .iter()
            .find(|row| row["queue"] == "work")
            .expect("a row");
        assert_eq!(
            (&work["paused"], &work["pause_reason"]),
            (&json!("both"), &json!("later"))
        );
        let resumed = workspace.run(&format!("resume work {way}"));
        assert_eq!(
            resumed.out, "queue work is not paused any more\n",
            "{resumed:?}"
        );
        let again = workspace.run(&format!("resume work --output json {way}"));
        assert_eq!(again.json()[0]["was_paused"], json!(false), "{again:?}");
        let id = workspace.call("claim work").json()[0]["lease_id"].clone();
        let id = id.as_str().expect("an id");
        workspace.call(&format!("release work {id}"));
    }
}

#[test]
fn pause_with_an_end_shows_it() {
    let workspace = Workspace::serving();
    let paused = workspace.call("pause work --until 2h").json();
    let [start, end] = ["pause_time", "until"].map(|name| {
        let moment = paused[0][name].as_str().expect("a moment");
        let format = &time::format_description::well_known::Rfc3339;
        time::OffsetDateTime::parse(moment, format).expect("RFC 3339")
    });
    let length = (end - start).whole_minutes();
    assert!((118..=121).contains(&length), "{paused:?}");
    let refused = workspace.call("pause work --until yesterday");
    assert_eq!(refused.code, 64, "{refused:?}");
}

#[test]
fn limits_that_the_configuration_does_not_know_are_warned_of() {
    const QUEUE: &str = "[queues.work]\nmanaged_columns = { payload = 'text' }\n";
    const WARNING: &str = "limits in the database do not count";
    let mut workspace = Workspace::with(&format!("{QUEUE}max_leases = 1\n"));
    workspace.serve();
    let process = workspace.process.take().expect("a service");
    assert!(!process.log().contains(WARNING), "{}", process.log());
    drop(process);
    std::fs::write(workspace.path("queues.toml"), QUEUE).expect("a file");
    workspace.serve();
    let process = workspace.process.as_ref().expect("a service");
    wait_until_blocking("the warning", || process.log().contains(WARNING));
}

#[test]
fn limits_are_shown_and_changed_both_ways() {
    let mut workspace =
        Workspace::with("[queues.work]\nmanaged_columns = { payload = 'text' }\nmax_leases = 1\n");
    workspace.serve();
    let url = workspace.process.as_ref().expect("a service").url();
    let service = format!("--address {url}");
    for (way, max) in [(&*service, 2), ("--config queues.toml --store q.db", 3)] {
        let set = workspace.run(&format!(
            "limits work --max-leases {max} --rate 100/1m --burst 7 --reason test {way}"
        ));
        let text = format!("limits of queue work: {max} leases, 100/1m items with a burst of 7\n");
        assert_eq!((set.code, &*set.out), (0, &*text), "{set:?}");
        let row = workspace
            .run(&format!("limits work --output json {way}"))
            .json()[0]
            .clone();
        assert_eq!(
            (&row["max_leases"], &row["rate"], &row["burst"]),
            (&json!(max), &json!("100/1m"), &json!(7))
        );
        let none = workspace.run(&format!("limits work --max-leases 0 --rate none {way}"));
        assert_eq!(none.out, "queue work has no limits\n", "{none:?}");
        for refused in ["--rate 5", "--burst 5", "--max-leases -1"] {
            let refused = workspace.run(&format!("limits work {refused} {way}"));
            assert_eq!(refused.code, 64, "{refused:?}");
        }
    }
}

#[test]
fn group_is_paused_and_resumed_both_ways() {
    let mut workspace = Workspace::with(
        "[queues.work]\nmanaged_columns = { payload = 'text NOT NULL' }\ngroup = 'payload'\n",
    );
    workspace.serve();
    workspace.call("enqueue work --set payload=x");
    let url = workspace.process.as_ref().expect("a service").url();
    let service = format!("--address {url}");
    for way in [&*service, "--config queues.toml --store q.db"] {
        let paused = workspace.run(&format!("groups pause work x --reason prices {way}"));
        assert_eq!(paused.code, 0, "{paused:?}");
        let text = "group x of queue work is paused; reason: prices";
        assert_eq!(without_user(&paused.out), text);
        assert_eq!(paused.err, "", "{paused:?}");
        let unused = workspace.run(&format!("groups pause work unused {way}"));
        assert!(
            unused.err.contains("item has the group unused now"),
            "{unused:?}"
        );
        let resumed = workspace.run(&format!("groups resume work unused {way}"));
        assert_eq!(resumed.code, 0, "{resumed:?}");
        let empty: [Value; 0] = [];
        assert_eq!(workspace.call("claim work").json(), empty);
        let listed = workspace.run(&format!("groups list work --output json {way}"));
        let group = listed.json()[0].clone();
        assert_eq!(
            (
                &group["group"],
                &group["state"],
                &group["key"],
                &group["reason"]
            ),
            (&json!("x"), &json!("paused"), &json!("1"), &json!("prices")),
            "{listed:?}"
        );
        let ready = workspace.run(&format!("groups list work --state ready {way}"));
        assert_eq!(ready.out, "no groups in this state\n", "{ready:?}");
        let why = workspace.run("why work 1 --config queues.toml --store q.db");
        assert!(
            why.out.contains("Its group is paused")
                && why.out.contains("(prices)")
                && why.out.contains("groups resume work x"),
            "{why:?}"
        );
        let resumed = workspace.run(&format!("groups resume work x {way}"));
        let text = "group x of queue work is not paused any more\n";
        assert_eq!((resumed.code, &*resumed.out), (0, text), "{resumed:?}");
        let again = workspace.run(&format!("groups resume work x --output json {way}"));
        assert_eq!(again.json()[0]["was_paused"], json!(false), "{again:?}");
        let refused = workspace.run(&format!("groups pause work x --until never {way}"));
        assert_eq!(refused.code, 64, "{refused:?}");
    }
}

#[test]
fn flags_and_variables_name_one_place() {
    let workspace = Workspace::serving();
    let url = workspace.process.as_ref().expect("a service").url();
    let both = workspace.store(&format!("stats --address {url}"));
    assert_eq!(both.code, 64, "{both:?}");
    assert!(both.err.contains("remove one of them"), "{both:?}");
    // The service of the workspace has the queues `outbox` and `work`, and the file has another one.
    workspace.write(
        "other.toml",
        "[queues.other]\nmanaged_columns = { payload = 'text' }",
    );
    let apply = workspace.run("schema apply --config other.toml --store other.db");
    assert_eq!(apply.code, 0, "{apply:?}");
    let looks = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = program();
        command
            .current_dir(workspace.folder.path())
            .args(["stats", "--output", "csv"]);
        command.args(arguments).envs(variables.iter().copied());
        let output = command.output().expect("a process");
        String::from_utf8(output.stdout)
            .expect("UTF-8")
            .contains("other")
    };
    let address = ("LEASE_BROKER_ADDRESS", &*url);
    let config = ("LEASE_BROKER_CONFIG", "other.toml");
    assert!(looks(&["--store", "other.db"], &[address, config]));
    assert!(looks(
        &["--config", "other.toml", "--store", "other.db"],
        &[address]
    ));
    assert!(!looks(&[], &[address, config]));
    assert!(!looks(&["--address", &url], &[config]));
}

#[test]
fn database_is_looked_at_while_no_broker_runs() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    for (command, text) in [
        ("operations", "no operations\n"),
        ("brokers", "no brokers\n"),
        ("list work", "no items in this state\n"),
    ] {
        let printed = workspace.store(command);
        assert_eq!((printed.code, &*printed.out), (0, text), "{printed:?}");
    }
}

#[test]
fn change_of_a_database_names_its_user_and_host() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host");
    let paused = workspace.store("pause work --output json").json();
    let actor = paused[0]["actor"].as_str().expect("an actor");
    let (user, named_host) = actor.split_once('@').expect("a user and a host");
    assert_eq!(named_host, host.trim());
    assert!(
        user.starts_with("database:") && user != "database:",
        "{actor}"
    );
    let stats = workspace.call("stats").json();
    let mut queues = stats.iter();
    let work = queues.find(|row| row["queue"] == "work").expect("a row");
    assert_eq!(work["pause_actor"], actor);
    workspace.call("resume work");
    workspace.lease();
    let cancelled = workspace.store("cancel work --yes --reason gone");
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    let operations = workspace.call("operations").json();
    assert_eq!(operations[0]["actor"], actor, "{operations:?}");
}
