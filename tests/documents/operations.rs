//! Runs the commands of `docs/operations.md`. Each section begins in a situation of its own, which its test makes first.

use std::path::PathBuf;

use super::session::Session;
use super::store::Store;
use super::{read, section};
use crate::support::certificates::Authority;

const PAGE: &str = "docs/operations.md";

/// The configuration of the page, and a broker.
const BROKER: &str = r#"
```toml
[store]
path = "orders.db"

[queues.orders]
managed_columns = { customer = "text" }
lease_duration = "5m"
max_attempts = 2
backoff = { initial = "1h", max = "1h", jitter = 0.0 }
```

```console
$ lease-broker serve &
...
```
"#;

/// Five items.
const ITEMS: &str = "
```console
$ for name in Ada Grace Edsger Alan Barbara; do lease-broker enqueue orders --set customer=$name > /dev/null; done
```
";

/// A night with a broker and five items, in which more has happened.
fn night(events: &str) -> Session {
    let mut operator = Session::start(Store::Sqlite);
    operator.set_variable("LEASE_BROKER_CONFIG", PathBuf::from("queues.toml"));
    operator.run(&format!("{BROKER}{ITEMS}{events}"));
    operator
}

/// Runs a section up to a text, stops the broker that started last, and runs the rest.
fn run_with_a_stop(operator: &mut Session, heading: &str, stop: &str) {
    let section = section(PAGE, heading);
    let (before, after) = section.split_once(stop).expect("the text");
    operator.run(before);
    assert!(operator.stop_last_service().success());
    operator.run(after);
}

#[test]
fn look_first() {
    night("").run(&section(PAGE, "Look first"));
}

#[test]
fn queue_is_behind() {
    night("").run(&section(PAGE, "A queue is behind"));
}

#[test]
fn everything_fails() {
    let mut operator = night(
        r#"
```console
$ lease-broker claim orders --worker pc-9 --limit 5 --output json > leases.json
$ lease-broker fail orders - --error "price service: 503" < leases.json > failed.txt
```

```sql
UPDATE orders SET lease_due_time = 0 WHERE id IN (3, 4);
DELETE FROM orders WHERE id = 5;
```

```console
$ lease-broker claim orders --worker pc-9 --limit 2 --wait 20s --output json > leases.json
$ lease-broker fail orders - --error "price service: 503" < leases.json > failed.txt
```
"#,
    );
    operator.run(&section(PAGE, "Everything fails"));
}

/// pc-7 has the items 1 and 2, and pc-8 has item 3.
const LEASES: &str = "
```console
$ lease-broker claim orders --worker pc-7 --limit 2 > claimed.txt
$ lease-broker claim orders --worker pc-8 --limit 1 > claimed.txt
```
";

#[test]
fn one_worker_host_is_gone() {
    night(LEASES).run(&section(PAGE, "One worker host is gone"));
}

#[test]
fn poison_items() {
    let mut operator = night(
        r"
```console
$ lease-broker claim orders --limit 2 --output json | lease-broker complete orders - > completed.txt
$ lease-broker claim orders --worker pc-8 --limit 1 > claimed.txt
```
",
    );
    operator.run(&section(PAGE, "Poison items"));
}

const ALL_COMPLETED: &str = "
```console
$ lease-broker claim orders --limit 5 --output json | lease-broker complete orders - > completed.txt
```
";

#[test]
fn wrong_release_was_rolled_out() {
    night(ALL_COMPLETED).run(&section(PAGE, "A wrong release was rolled out"));
}

#[test]
fn database_fails_over() {
    let leases = "
```console
$ lease-broker claim orders --limit 5 > claimed.txt
```
";
    let mut operator = night(leases);
    let stop = "stop all brokers, begin an epoch";
    run_with_a_stop(&mut operator, "The database fails over", stop);
}

#[test]
fn disk_is_full() {
    let long_ago = "
```sql
UPDATE orders SET lease_state_time = lease_state_time - 40 * 24 * 3600 * 1000;
```
";
    let mut operator = night(&format!("{ALL_COMPLETED}{long_ago}"));
    operator.run(&section(PAGE, "The disk is full"));
}

#[test]
fn certificate_expired() {
    let mut operator = Session::start(Store::Sqlite);
    operator.set_variable("LEASE_BROKER_CONFIG", PathBuf::from("queues.toml"));
    let folder = operator.path("");
    let authority = Authority::new();
    std::fs::write(folder.join("ca.crt"), authority.pem()).expect("a file");
    let yesterday = time::OffsetDateTime::now_utc() - time::Duration::DAY;
    let expired = authority.sign_until(&["127.0.0.1"], yesterday);
    expired.write(&folder, "broker");
    authority.sign(&["127.0.0.1"]).write(&folder, "renewed");
    operator.run(
        r#"
```console
$ lease-broker token new loader --tokens-file tokens > loader.token
```

```toml
[server.tls]
certificate = "broker.crt"
key = "broker.key"

[auth]
tokens_file = "tokens"

[[auth.identities]]
name = "loader"
token = "loader"
roles = { producer = ["*"] }

[store]
path = "orders.db"

[queues.orders]
managed_columns = { customer = "text" }
```

```console
$ lease-broker serve &
...
```
"#,
    );
    operator.run(&section(PAGE, "A certificate expired"));
}

#[test]
fn drain_for_maintenance() {
    let mut operator = Session::start(Store::Sqlite);
    operator.set_variable("LEASE_BROKER_CONFIG", PathBuf::from("queues.toml"));
    let second = "$ lease-broker serve --listen 127.0.0.1:50052 &\n...\n$ lease-broker serve &";
    operator.run(&BROKER.replace("$ lease-broker serve &", second));
    let stop = "\n| it runs under";
    run_with_a_stop(&mut operator, "Drain for maintenance", stop);
}

#[test]
fn restore_from_a_backup() {
    let lease = "
```console
$ lease-broker claim orders > claimed.txt
```
";
    let mut operator = night(lease);
    let stop = "stop all brokers on the file";
    run_with_a_stop(&mut operator, "Restore from a backup", stop);
}

#[test]
fn page_has_ten_situations_with_commands() {
    let page = read(PAGE);
    let mut sections = page.split("\n## ").skip(1);
    let look = sections.next().expect("a section");
    assert!(look.starts_with("Look first"));
    let situations: Vec<_> = sections.collect();
    assert_eq!(situations.len(), 10);
    for situation in situations {
        assert!(situation.contains("\n$ lease-broker "), "{situation}");
    }
}
