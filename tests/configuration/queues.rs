//! The settings of a queue: their meaning, and the error for each invalid value.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{
    MirrorValue, OnComplete, Order, OrderColumn, QueueSpec, SoftLockColumn,
};
use lease_broker_value::Value;

use crate::configuration::test_sources::{from_file, location};

/// Loads a valid file and returns its first queue.
fn queue(text: &'static str) -> QueueSpec {
    let config =
        from_file(text).unwrap_or_else(|error| panic!("the configuration is invalid: {error}"));
    config.queues.into_iter().next().expect("there is a queue")
}

/// Asserts that a file is rejected for a setting of queue `a`. Checks the key within the queue, the line, and a part of
/// the message.
#[track_caller]
fn assert_rejected(text: &'static str, key: &str, line: usize, reason: &str) {
    let error = from_file(text).expect_err(text);
    let key = if key.is_empty() {
        "queues.a".to_owned()
    } else {
        format!("queues.a.{key}")
    };
    assert_eq!(error.key, key, "{error}");
    assert_eq!(location(&error), format!("given.toml:{line}"), "{error}");
    assert!(error.reason.contains(reason), "{error}");
}

fn column(column: &str, descending: bool) -> OrderColumn {
    OrderColumn {
        column: column.to_owned(),
        descending,
    }
}

#[test]
fn adopted_table_can_be_described_in_full() {
    let queue = queue(
        "[queues.rainfall]
        table = 'Rainfall Events'
        key = ['Event_ID', 'Part']
        columns = ['Event_ID', 'Station']
        order = ['Priority desc', 'Event_ID']
        on_complete = { archive = 'Old' }
        [queues.rainfall.soft_lock]
        lease_owner = 'Process_ID'
        [queues.rainfall.mirror]
        ready = { Processed = 0, By = '$null' }
        leased = { By = '$worker' }
        completed = { Processed = 1, At = '$now', Note = '$$now', Ok = true, Share = 0.5 }",
    );
    assert_eq!(
        (&*queue.name, &*queue.table),
        ("rainfall", "Rainfall Events")
    );
    assert_eq!(queue.key, ["Event_ID", "Part"]);
    assert_eq!(queue.columns.as_deref().map(<[String]>::len), Some(2));
    assert_eq!(
        queue.order,
        Order::By(vec![column("Priority", true), column("Event_ID", false)])
    );
    assert_eq!(queue.on_complete, OnComplete::Archive("Old".to_owned()));
    assert_eq!(queue.soft_lock.name(SoftLockColumn::Owner), "Process_ID");
    assert_eq!(queue.soft_lock.name(SoftLockColumn::Token), "lease_token");
    assert_eq!(queue.managed_columns, None);
    let value = |state, name: &str| {
        let mut mirrors = queue.mirror.iter();
        let found = mirrors.find(|mirror| mirror.state == state && mirror.column == name);
        found.expect("the mirror exists").value.clone()
    };
    assert_eq!(
        value(State::Ready, "Processed"),
        MirrorValue::Literal(Value::Int(0))
    );
    assert_eq!(value(State::Ready, "By"), MirrorValue::Literal(Value::Null));
    assert_eq!(value(State::Leased, "By"), MirrorValue::Worker);
    assert_eq!(value(State::Completed, "At"), MirrorValue::Now);
    let text = MirrorValue::Literal(Value::Text("$now".to_owned()));
    assert_eq!(value(State::Completed, "Note"), text);
    assert_eq!(
        value(State::Completed, "Ok"),
        MirrorValue::Literal(Value::Bool(true))
    );
}

#[test]
fn order_has_any_number_of_columns() {
    assert_eq!(queue("[queues.a]\norder = 'none'").order, Order::None);
    let one = Order::By(vec![column("Due Date", true)]);
    assert_eq!(queue("[queues.a]\norder = 'Due Date DESC'").order, one);
    assert_eq!(
        queue("[queues.a]\norder = [{ column = 'Due Date', descending = true }]").order,
        one
    );
    let ascending = Order::By(vec![column("rank", false)]);
    assert_eq!(queue("[queues.a]\norder = 'rank asc'").order, ascending);
    assert_eq!(queue("[queues.a]\norder = ['rank']").order, ascending);
}

#[test]
fn key_has_one_to_three_columns() {
    assert_eq!(queue("[queues.a]\nkey = 'id'").key, ["id"]);
    assert_eq!(queue("[queues.a]\nkey = ['a', 'b', 'c']").key.len(), 3);
    assert_rejected(
        "[queues.a]\nkey = ['a', 'b', 'c', 'd']",
        "key",
        2,
        "at most 3",
    );
    assert_rejected("[queues.a]\nkey = 5", "key", 2, "a column's name or a list");
    assert_rejected("[queues.a]\nkey = ['']", "key", 2, "1 to 128 characters");
}

#[test]
fn completion_keeps_deletes_archives_or_repeats() {
    let on_complete = |text| queue(text).on_complete;
    assert_eq!(
        on_complete("[queues.a]\non_complete = 'keep'"),
        OnComplete::Keep
    );
    assert_eq!(
        on_complete("[queues.a]\non_complete = 'delete'"),
        OnComplete::Delete
    );
    assert_eq!(
        on_complete("[queues.a]\non_complete = { recur = '15m' }"),
        OnComplete::Recur(Duration::from_secs(900))
    );
    assert_rejected("[queues.a]\non_complete = 'burn'", "on_complete", 2, "");
    assert_rejected(
        "[queues.a]\non_complete = { recur = 'soon' }",
        "on_complete.recur",
        2,
        "soon",
    );
    assert_rejected(
        "[queues.a]\non_complete = { archive = 'A' }",
        "on_complete.archive",
        2,
        "own table",
    );
    assert_rejected(
        "[queues.a]\non_complete = { archive = '' }",
        "on_complete.archive",
        2,
        "1 to 128",
    );
}

#[test]
fn lease_out_of_bounds_is_rejected() {
    let range = "is not between";
    assert_rejected(
        "[queues.a]\nlease_duration = '0s'",
        "lease_duration",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nlease_duration = '13h'",
        "lease_duration",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nmin_lease_duration = '999ms'",
        "min_lease_duration",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nmax_lease_duration = '13h'",
        "max_lease_duration",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nmin_lease_duration = '10m'\nmax_lease_duration = '5m'",
        "min_lease_duration",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nlease_duration = 'long'",
        "lease_duration",
        2,
        "not a duration",
    );
}

#[test]
fn default_lease_must_fit_the_bounds() {
    let error = from_file("[queues.a]\nmin_lease_duration = '2m'")
        .expect_err("the minimum is longer than the default");
    assert_eq!(error.key, "queues.a.lease_duration");
    let reason = "1m is not between 2m and 12h; queues.a.min_lease_duration is set at ";
    assert!(error.reason.starts_with(reason), "{error}");
    let error = from_file("[queues.a]\nmax_lease_duration = '30s'")
        .expect_err("the maximum is shorter than the default");
    assert_eq!(error.key, "queues.a.lease_duration");
}

#[test]
fn invalid_queue_default_is_located() {
    let error = from_file("[queue_defaults]\nlease_duration = '13h'\n[queues.a]")
        .expect_err("the lease is too long");
    assert_eq!(
        (&*error.key, &*location(&error)),
        ("queues.a.lease_duration", "given.toml:2")
    );
    let error = from_file("[queue_defaults]\nlease_duration = 'long'\n[queues.a]")
        .expect_err("the value is not a duration");
    assert_eq!(location(&error), "given.toml:2", "{error}");
    for (text, key) in [
        ("[queue_defaults]\ntable = 't'", "queue_defaults.table"),
        ("[queue_defaults]\nkey = 'k'", "queue_defaults.key"),
        (
            "[queue_defaults]\ncolumns = ['c']",
            "queue_defaults.columns",
        ),
        (
            "[queue_defaults]\nmanaged_columns = { c = 'text' }",
            "queue_defaults.managed_columns",
        ),
        (
            "[queue_defaults]\nwritable = ['c']",
            "queue_defaults.writable",
        ),
    ] {
        let error = from_file(text).expect_err(key);
        assert_eq!(
            (&*error.key, &*location(&error)),
            (key, "given.toml:2"),
            "{error}"
        );
    }
}

#[test]
fn backoff_out_of_bounds_is_rejected() {
    let range = "is not between";
    assert_rejected(
        "[queues.a]\nbackoff = { factor = 0.5 }",
        "backoff.factor",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nbackoff = { factor = nan }",
        "backoff.factor",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nbackoff = { factor = 1001.0 }",
        "backoff.factor",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nbackoff = { jitter = 1.1 }",
        "backoff.jitter",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nbackoff = { jitter = -0.1 }",
        "backoff.jitter",
        2,
        range,
    );
    assert_rejected(
        "[queues.a]\nbackoff = { initial = '2h' }",
        "backoff.initial",
        2,
        "longer than",
    );
    assert_rejected("[queues.a]\nmax_attempts = -1", "max_attempts", 2, "");
    assert_eq!(
        queue("[queues.a]\nmax_attempts = 0").retry.max_attempts,
        None
    );
}

#[test]
fn soft_lock_names_must_be_distinct() {
    let text = "[queues.a.soft_lock]\nlease_holder = 'x'";
    assert_rejected(
        text,
        "soft_lock.lease_holder",
        2,
        "expected one of lease_state",
    );
    let text = "[queues.a.soft_lock]\nlease_owner = 'LEASE_TOKEN'";
    assert_rejected(text, "soft_lock.lease_owner", 2, "another soft-lock column");
    let text = "[queues.a.soft_lock]\nlease_owner = 'x'\nlease_token = 'X'";
    assert_rejected(text, "soft_lock.lease_token", 3, "another soft-lock column");
    assert_rejected(
        "[queues.a.soft_lock]\nlease_owner = ''",
        "soft_lock.lease_owner",
        2,
        "1 to 128",
    );
}

#[test]
fn invalid_mirror_is_rejected() {
    assert_rejected(
        "[queues.a.mirror]\ndone = { P = 1 }",
        "mirror.done",
        2,
        "expected one of ready",
    );
    assert_rejected(
        "[queues.a.mirror]\ndead = { P = '$then' }",
        "mirror.dead.P",
        2,
        "$now",
    );
    assert_rejected(
        "[queues.a.mirror]\ndead = { P = [1] }",
        "mirror.dead.P",
        2,
        "not array",
    );
    assert_rejected(
        "[queues.a.mirror]\ndead = { '' = 1 }",
        "mirror.dead.",
        2,
        "1 to 128",
    );
    let text = "[queues.a.mirror]\nready = { P = 0 }\ncompleted = { P = 0 }";
    assert_rejected(text, "mirror.completed", 3, "the same as mirror.ready");
}

#[test]
fn managed_column_type_cannot_contain_sql() {
    for (text, key) in [
        (
            "[queues.a]\nmanaged_columns = { p = 'text); DROP TABLE x; --' }",
            "managed_columns.p",
        ),
        (
            "[queues.a]\nmanaged_columns = { p = '' }",
            "managed_columns.p",
        ),
        (
            "[queues.a]\nmanaged_columns = { p = 5 }",
            "managed_columns.p",
        ),
        (
            "[queues.a]\nmanaged_columns = { p = '1text' }",
            "managed_columns.p",
        ),
    ] {
        assert_rejected(text, key, 2, "must be a type");
    }
    assert_rejected(
        "[queues.a]\nmanaged_columns = { '' = 'text' }",
        "managed_columns.",
        2,
        "1 to 128",
    );
}

#[test]
fn managed_columns_are_not_those_of_the_broker() {
    for (text, key, reason) in [
        (
            "[queues.a]\nmanaged_columns = { ID = 'text' }",
            "managed_columns.ID",
            "leave it out",
        ),
        (
            "[queues.a]\nmanaged_columns = { Lease_State = 'text' }",
            "managed_columns.Lease_State",
            "soft-lock column",
        ),
        (
            "[queues.a]\nsoft_lock = { lease_state = 'mine' }\nmanaged_columns.mine = 'text'",
            "managed_columns.mine",
            "soft-lock column",
        ),
        (
            "[queues.a]\nmanaged_columns = { a = 'text', A = 'text' }",
            "managed_columns.",
            "twice",
        ),
        (
            "[queues.a]\nmanaged_columns = { a = 'text Primary  Key' }",
            "managed_columns.a",
            "key = ",
        ),
    ] {
        let error = from_file(text).expect_err(text);
        assert!(error.key.starts_with(&format!("queues.a.{key}")), "{error}");
        assert!(location(&error).starts_with("given.toml:"), "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
    // A configured key replaces the key of the broker.
    queue("[queues.a]\nkey = 'k'\nmanaged_columns = { k = 'text', id = 'text' }");
    queue("[queues.a]\nkey = 'id'\nmanaged_columns = { id = 'text' }");
}

#[test]
fn writable_columns_are_kept_as_given() {
    for on_complete in ["'keep'", "{ archive = 'Old' }", "{ recur = '1m' }"] {
        let text =
            format!("[queues.a]\nwritable = ['Total', 'Result']\non_complete = {on_complete}");
        assert_eq!(queue(text.leak()).writable, ["Total", "Result"]);
    }
    assert_eq!(queue("[queues.a]").writable, [] as [&str; 0]);
}

#[test]
fn columns_of_the_queue_are_not_writable() {
    for (text, reason) in [
        (
            "writable = ['k']\nkey = ['J', 'K']",
            "\"k\" is part of the key",
        ),
        (
            "writable = ['Total', 'p']\norder = ['P desc']",
            "\"p\" is part of the order",
        ),
        (
            "writable = ['Lease_Error']",
            "\"Lease_Error\" is a soft-lock column",
        ),
        (
            "writable = ['w']\nsoft_lock = { lease_owner = 'W' }",
            "\"w\" is a soft-lock column",
        ),
        (
            "writable = ['done']\nmirror = { completed = { Done = 1 } }",
            "\"done\" is a mirror column",
        ),
        ("writable = ['Total', 'total']", "\"total\" is named twice"),
        ("writable = ['']", "1 to 128"),
        (
            "writable = ['Total']\non_complete = 'delete'",
            "cannot be combined with on_complete = 'delete'",
        ),
    ] {
        let text = format!("[queues.a]\n{text}");
        assert_rejected(text.leak(), "writable", 2, reason);
    }
}

#[test]
fn mirrors_are_no_columns_by_which_the_broker_knows_an_item() {
    for (text, reason) in [
        (
            "mirror = { completed = { K = 1 } }\nkey = ['j', 'k']",
            "is part of the key",
        ),
        (
            "mirror = { completed = { lease_State = 0 } }",
            "is a soft-lock column",
        ),
    ] {
        let text = format!("[queues.a]\n{text}");
        let error = from_file(text.clone().leak()).expect_err(&text);
        assert!(error.reason.contains(reason), "{error}");
    }
    let text = "[queues.a]\nmirror = { ready = { done = 0 }, completed = { Done = 1 } }";
    let error = from_file(text).expect_err("two spellings");
    assert!(error.reason.contains("spelled in two ways"), "{error}");
}

#[test]
fn archives_are_of_one_queue() {
    for (text, reason) in [
        (
            "[queues.a]\non_complete = { archive = 'B' }\n[queues.b]",
            "is the table of queue \"b\"",
        ),
        (
            "[queue_defaults]\non_complete = { archive = 'z' }\n[queues.a]\n[queues.b]\nkeep_for = { archive = '1d' }\npurge = true",
            "is the archive of queue \"a\" too",
        ),
        (
            "[queues.a]\ntable = 'dbo.lease_broker_secret'",
            "belongs to the broker itself",
        ),
    ] {
        let error = from_file(text).expect_err(text);
        assert!(error.reason.contains(reason), "{error}");
    }
    let shared = "[queue_defaults]\non_complete = { archive = 'z' }\n[queues.a]\n[queues.b]\non_complete = { recur = '1h' }";
    let config = from_file(shared).expect("another choice replaces the default");
    let hour = OnComplete::Recur(Duration::from_secs(3_600));
    assert_eq!(config.queues[1].on_complete, hour);
}

#[test]
fn a_server_has_one_table_for_all_spellings_of_its_name() {
    const SERVER: &str = "store = { kind = 'mssql', connection_string = 'Server=localhost' }\n";
    for (queues, key) in [
        (
            "[queues.a]\ntable = 'T'\n[queues.b]\ntable = 'dbo.t'",
            "queues.b.table",
        ),
        (
            "[queues.a]\ntable = 'T'\non_complete = { archive = '[dbo].[T]' }",
            "queues.a.on_complete.archive",
        ),
    ] {
        let error = from_file(format!("{SERVER}{queues}").leak()).expect_err(queues);
        assert_eq!(error.key, key, "{error}");
        from_file(queues).expect("SQLite has no schemas");
    }
    let schemas = "[queues.a]\ntable = 'T'\n[queues.b]\ntable = 'sales.T'";
    from_file(format!("{SERVER}{schemas}").leak()).expect("two tables");
}

#[test]
fn queues_need_names_and_distinct_tables() {
    let error = from_file("[queues.'']").expect_err("the name is empty");
    assert!(error.reason.contains("1 to 128 characters"), "{error}");
    let error = from_file("[queues.'work ']").expect_err("a blank at the end");
    assert!(error.reason.contains("end with a blank"), "{error}");
    assert_rejected("[queues.a]\ntable = ''", "table", 2, "1 to 128");
    assert_rejected("[queues.a]\ntable = \"x\\u0000\"", "table", 2, "NUL");
    assert_rejected("[queues.a]\ncolumns = ['']", "columns", 2, "1 to 128");
    let error = from_file("[queues.a]\ntable = 't'\n[queues.b]\ntable = 'T'")
        .expect_err("two queues share a table");
    assert_eq!(
        (&*error.key, &*location(&error)),
        ("queues.b.table", "given.toml:4")
    );
    assert!(error.reason.contains("\"a\""), "{error}");
    let error = from_file("queues = {}").expect_err("there is no queue");
    assert_eq!(
        (&*error.key, &*location(&error)),
        ("queues", "given.toml:1")
    );
}

#[test]
fn error_in_a_dotted_name_is_located() {
    let error = from_file("[queues.x]\n[queues.'a.b']\nlease_duration = '13h'")
        .expect_err("the lease is too long");
    assert_eq!(location(&error), "given.toml:3", "{error}");
}

#[test]
fn shared_table_needs_distinct_columns() {
    let error = from_file("[queues.one]\ntable = 'T'\n[queues.two]\ntable = 't'")
        .expect_err("two queues share a table");
    assert_eq!(error.key, "queues.two.table");
    let config = from_file(
        "[queues.one]
        table = 'T'
        [queues.two]
        table = 'T'
        soft_lock = { lease_state = 's', lease_state_time = 'st', lease_due_time = 'd', lease_owner = 'o', \
            lease_token = 't', lease_fence = 'f', lease_attempt = 'a', lease_error = 'e', trace_parent = 'p' }",
    );
    assert_eq!(config.expect("valid").queues.len(), 2);
}

#[test]
fn rows_of_managed_tables_can_be_kept_for_a_time() {
    let queue =
        queue("[queues.a]\nmanaged_columns = { b = 'text' }\nkeep_for = { completed = '30d' }");
    let days = Duration::from_secs(30 * 86_400);
    assert_eq!(queue.keep_for.completed, Some(days));
    assert_eq!((queue.keep_for.dead, queue.keep_for.archive), (None, None));
    assert_eq!(queue.keep_for.shortest(), Some(days));
    assert!(queue.allows_purge);
}

#[test]
fn rows_are_kept_forever_by_default() {
    let queue = queue("[queues.a]\n");
    assert_eq!(queue.keep_for.shortest(), None);
    assert!(!queue.allows_purge);
}

#[test]
fn adopted_tables_need_permission_to_delete_rows() {
    assert_rejected(
        "[queues.a]\nkeep_for = { completed = '30d' }",
        "keep_for.completed",
        2,
        "purge = true",
    );
    let allowed = queue("[queues.a]\npurge = true\nkeep_for = { dead = '12h' }");
    assert_eq!(allowed.keep_for.dead, Some(Duration::from_secs(43_200)));
}

#[test]
fn index_of_completed_items_needs_filters() {
    assert!(!queue("[queues.a]\n").completed_index);
    assert!(queue("[queues.a]\ncompleted_index = true").completed_index);
    assert_rejected(
        "[queues.a]\nfiltered_indexes = false\ncompleted_index = true",
        "completed_index",
        3,
        "filtered_indexes = true",
    );
}

#[test]
fn invalid_ages_are_refused() {
    let rejected = |text: &'static str, key: &str, reason: &str| {
        assert_rejected(text, key, 3, reason);
    };
    rejected(
        "[queues.a]\npurge = true\nkeep_for = { completed = '30' }",
        "keep_for.completed",
        "never",
    );
    rejected(
        "[queues.a]\npurge = true\nkeep_for = { dead = '30s' }",
        "keep_for.dead",
        "1m",
    );
    rejected(
        "[queues.a]\npurge = true\nkeep_for = { archive = '90d' }",
        "keep_for.archive",
        "no archive",
    );
    rejected(
        "[queues.a]\npurge = true\nkeep_for = { ready = '90d' }",
        "keep_for.ready",
        "unknown",
    );
}

#[test]
fn requests_are_remembered_for_a_day_by_default() {
    let day = Duration::from_secs(86_400);
    assert_eq!(queue("[queues.a]\n").enqueue_memory, day);
    let hour = queue("[queues.a]\nenqueue_memory = '1h'");
    assert_eq!(hour.enqueue_memory, day / 24);
    assert_rejected(
        "[queues.a]\nenqueue_memory = '1s'",
        "enqueue_memory",
        2,
        "1m",
    );
}

#[test]
fn recurrence_is_bounded() {
    let text = "[queues.a]\non_complete = { recur = '367d' }";
    assert_rejected(text, "on_complete.recur", 2, "366days");
    for allowed in ["0s", "366d"] {
        let text = format!("[queues.a]\non_complete = {{ recur = '{allowed}' }}").leak();
        queue(text);
    }
}

#[test]
fn checkpoint_is_a_switch_or_a_size() {
    let max_bytes = |text| queue(text).max_checkpoint_bytes;
    assert_eq!(max_bytes("[queues.a]"), None);
    assert_eq!(max_bytes("[queues.a]\ncheckpoint = false"), None);
    assert_eq!(max_bytes("[queues.a]\ncheckpoint = true"), Some(4_096));
    let largest = "[queues.a]\ncheckpoint = { max_bytes = 65536 }";
    assert_eq!(max_bytes(largest), Some(65_536));
    let all = "[queue_defaults]\ncheckpoint = true\n[queues.a]";
    assert_eq!(max_bytes(all), Some(4_096));
    for text in [
        "[queues.a]\ncheckpoint = { max_bytes = 0 }",
        "[queues.a]\ncheckpoint = { max_bytes = 65537 }",
    ] {
        assert_rejected(text, "checkpoint.max_bytes", 2, "65536");
    }
    assert_rejected(
        "[queues.a]\ncheckpoint = 'yes'",
        "checkpoint",
        2,
        "max_bytes",
    );
    assert_rejected(
        "[queues.a]\ncheckpoint = { bytes = 1 }",
        "checkpoint",
        2,
        "max_bytes",
    );
}
