//! `stats`, `list` and `redrive`.

use serde_json::json;

use crate::desk::Desk;
use crate::support::database;

#[test]
fn stats_count_the_items_of_every_queue_by_state() {
    let desk = Desk::serving();
    let leased = desk.lease();
    let id = desk.lease();
    desk.call(&format!("fail work {id} --dead-letter"));
    desk.call("enqueue work --set payload=x --delay 1h");
    desk.call("enqueue work --set payload=x");
    let stats = desk.store("stats --output json").json();
    assert_eq!(stats.len(), 2);
    let work = stats
        .iter()
        .find(|row| row["queue"] == "work")
        .expect("a row");
    for (state, count) in [
        ("ready", 1),
        ("leased", 1),
        ("delayed", 1),
        ("completed", 0),
        ("dead", 1),
    ] {
        assert_eq!(work[state], json!(count), "{state}");
    }
    assert!(
        work["oldest_ready"].is_string() && work["oldest_lease"].is_string(),
        "{work}"
    );
    desk.call(&format!("release work {leased}"));
    let table = desk.store("stats");
    assert_eq!(table.out.lines().count(), 3, "{table:?}");
}

#[test]
fn of_a_deep_queue_stats_say_that_there_are_more_and_exact_ones_how_many() {
    let desk = Desk::serving();
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10001)
        INSERT INTO work (payload) SELECT 'x' FROM n";
    desk.database().execute_batch(fill).expect(fill);
    let work = |text: &str| -> Vec<String> {
        let row = text.lines().find(|line| line.starts_with("work"));
        let cells = row.expect("a row").split_whitespace();
        cells.map(str::to_owned).collect()
    };
    let table = work(&desk.store("stats").out);
    assert_eq!(table[..6], ["work", "10000+", "0", "0", "0+", "0"]);
    let exact = work(&desk.store("stats --exact").out);
    assert_eq!(exact[..6], ["work", "10001", "0", "0", "0", "0"]);
    let json = |command: &str| {
        let rows = desk.store(command).json();
        let row = rows.into_iter().find(|row| row["queue"] == "work");
        row.expect("a row")
    };
    let stats = json("stats --output json");
    assert_eq!(stats["ready"], json!(10_000));
    assert_eq!(stats["at_least"], json!(["ready", "completed"]));
    let exact = json("stats --exact --output json");
    assert_eq!(exact["ready"], json!(10_001));
    assert_eq!(exact.get("at_least"), None);
}

#[test]
fn list_shows_who_holds_what_and_why_items_died() {
    let desk = Desk::serving();
    let nothing = desk.store("list work");
    assert_eq!((nothing.code, &*nothing.out), (0, "no such items\n"));
    desk.call("enqueue work --set payload=x");
    desk.call("claim work --worker somebody --lease 1h");
    let leased = desk.store("list work --output json").json();
    assert_eq!(leased[0]["owner"], "somebody");
    assert_eq!(
        (&leased[0]["key"], &leased[0]["attempt"]),
        (&json!("1"), &json!(1))
    );
    assert!(
        leased[0]["due_in"].as_str().expect("a time").contains('m'),
        "{leased:?}"
    );
    for _ in 0..3 {
        let id = desk.lease();
        desk.call(&format!("fail work {id} --error broken"));
    }
    let dead = desk
        .store("list work --state dead --limit 2 --output json")
        .json();
    assert_eq!(dead.len(), 2);
    assert_eq!(dead[0]["error"], "broken");
}

#[test]
fn redrive_makes_dead_items_ready_while_the_service_runs() {
    let desk = Desk::serving();
    for _ in 0..3 {
        let id = desk.lease();
        desk.call(&format!("fail work {id} --error broken"));
    }
    let one = desk.store("redrive work --limit 1");
    assert_eq!((one.code, &*one.out), (0, "1 items are ready again\n"));
    let rest = desk.store("redrive work");
    assert_eq!(rest.out, "2 items are ready again\n");
    let leases = desk.call("claim work --max 10").json();
    assert_eq!(leases.len(), 3);
    assert!(
        leases.iter().all(|lease| lease["attempt"] == 1),
        "{leases:?}"
    );
    let waiting: i64 = database::value(
        &desk.database(),
        "SELECT count(*) FROM work WHERE lease_state = 4",
    );
    assert_eq!(waiting, 0);
}
