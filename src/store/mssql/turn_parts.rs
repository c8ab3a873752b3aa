//! The parts of `groups.sql` in the batches of a queue with groups or limits.

use lease_broker_model::group::Groups;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use lease_broker_sql::LeaseSql;

use super::catalogue::{Column, collate, of_column};
use super::list_parameters::unescape_sql;
use super::quote::{quote, text_literal};
use super::run_parts;
use super::types::ColumnType;
use super::value_limits::split_sizes;
use crate::index_role::IndexRole;
use crate::queue_columns::{QueueColumns, sort_list};
use crate::template::{Placeholders, render};

/// The placeholders of a claim that are empty if claims take no turns.
const PARTS: [&str; 8] = [
    "read_paused_groups",
    "turn_column",
    "bound_wanted",
    "end_turn",
    "tell_limits",
    "suspect_is_free",
    "tell_busy_suspects",
    "share_without_suspect",
];

/// Returns whether a column of this type can name groups: values have an order that does not depend on rounding, and an index can
/// have it.
pub(super) fn can_name_groups(column: &Column) -> bool {
    let declared = column.declared.to_ascii_lowercase();
    let is_long = declared.contains("(max)") || ["text", "ntext", "image"].contains(&&*declared);
    let fits = matches!(
        column.kind,
        ColumnType::Int(..)
            | ColumnType::Bool
            | ColumnType::Text
            | ColumnType::Binary
            | ColumnType::Decimal
            | ColumnType::DateTime
            | ColumnType::DateTimeOffset
            | ColumnType::Date
            | ColumnType::Time
            | ColumnType::Guid
    );
    fits && !is_long
}

/// Sets the placeholders of the groups that depend on the table.
pub(super) fn set_table_placeholders(
    placeholders: &mut Placeholders,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
) {
    placeholders.insert("policy", text_literal(&queue.group_policy()));
    let (Some(groups), Some(group)) = (&queue.groups, &columns.group) else {
        return;
    };
    let order = columns.order_in_group();
    let sorted = |prefix| sort_list(&order, prefix, quote);
    let state = quote(queue.soft_lock.name(SoftLockColumn::State));
    let busy_states = |alias: &str| {
        if queue.filtered_indexes {
            IndexRole::Busy.condition(queue, &format!("{alias}.{state}"))
        } else {
            "1 = 1".to_owned()
        }
    };
    let listed = |alias: &str| {
        let names = order
            .iter()
            .map(|part| format!("{alias}.{}", quote(&part.column)));
        names.collect::<Vec<_>>().join(", ")
    };
    let present = columns.key.iter().filter(|column| column.nullable);
    let present = present.map(|column| format!(" AND b.{} IS NOT NULL", quote(&column.name)));
    let is_key = |column: &&Column| column.name != group.name;
    let same_key = columns.key.iter().filter(is_key).map(|column| {
        let name = quote(&column.name);
        format!("h.{name} = t.{name}")
    });
    let same_key: Vec<String> = std::iter::once("1 = 1".to_owned())
        .chain(same_key)
        .collect();
    let names: Vec<String> = (1..=columns.key.len())
        .map(|number| format!("m.lb_k{number}"))
        .collect();
    for (placeholder, text) in [
        ("group", quote(&group.name)),
        ("group_variable", variable_type(group)),
        (
            "group_declaration",
            format!("lb_group {}{} NULL", group.declared, collate(group)),
        ),
        ("group_value", value_of("@group", group)),
        ("stored_group", of_text("g.group_text", group)),
        ("given_group", variable_of_text("@P2", group)),
        ("at_value", value_of("@at", group)),
        ("listed_group", of_text(&unescape_sql("j.g"), group)),
        ("hash_of_variable", hash("@group", group)),
        (
            "hash_of_row",
            hash(&format!("t.{}", quote(&group.name)), group),
        ),
        ("round_start_value", value_of("@round_start", group)),
        ("t_group_order", sorted("t.")),
        ("b_group_order", sorted("b.")),
        ("f_group_order", sorted("f.")),
        ("b_order_columns", listed("b")),
        ("t_order_columns", listed("t")),
        ("t_busy_states", busy_states("t")),
        ("b_key_not_null", present.collect::<Vec<_>>().concat()),
        ("busy_states", busy_states("b")),
        (
            "behind_states",
            if groups.halts() { "2, 4" } else { "2" }.to_owned(),
        ),
        ("m_key_names", names.join(", ")),
        ("h_key_match", same_key.join(" AND ")),
    ] {
        placeholders.insert(placeholder, text);
    }
}

/// Returns the type of a variable for the name of a group. A variable of type `char` or `varchar` would have the code page of the
/// database, which may lack letters of the column's.
fn variable_type(group: &Column) -> String {
    let length = group.declared.split_once('(').map(|(_, length)| length);
    match (group.code_page, length) {
        (Some(_), Some(length)) => format!("nvarchar({length}"),
        (Some(_), None) => "nvarchar(1)".to_owned(),
        (None, _) => group.declared.clone(),
    }
}

/// Returns the value of a variable as a value of the column, so that the server seeks in its index.
fn value_of(variable: &str, group: &Column) -> String {
    match group.code_page {
        Some(_) => of_column(group, variable),
        None => variable.to_owned(),
    }
}

/// Returns a text as a value of the column. A text that is none, because the column had another type before, becomes NULL.
fn of_text(text: &str, group: &Column) -> String {
    match group.kind {
        ColumnType::Text => of_column(group, text),
        _ => variable_of_text(text, group),
    }
}

/// Returns the hash of a value. Values that differ in case or in spaces at their end have one hash if the column calls them equal.
/// COLLATE, because a variable has the collation of the database, in which other letters can be a pair of upper and lower case.
fn hash(value: &str, group: &Column) -> String {
    let text = match group.kind {
        ColumnType::Text => {
            let text = format!("RTRIM(CONVERT(nvarchar(4000), {value}{}))", collate(group));
            let collation = group.collation.as_deref().unwrap_or_default();
            if collation.to_ascii_uppercase().contains("_CI_") {
                format!("UPPER({text})")
            } else {
                text
            }
        }
        ColumnType::Binary => value.to_owned(),
        ColumnType::DateTimeOffset => {
            format!("CONVERT(nvarchar(100), SWITCHOFFSET({value}, '+00:00'), 121)")
        }
        ColumnType::DateTime | ColumnType::Date | ColumnType::Time => {
            format!("CONVERT(nvarchar(100), {value}, 121)")
        }
        _ => format!("CONVERT(nvarchar(100), {value})"),
    };
    format!("HASHBYTES('SHA2_256', {text})")
}

/// Returns a text as a decimal, or NULL if it is none of this type. `TRY_CONVERT` to a decimal returns 0 on Babelfish 4.3, at some times.
fn decimal_of_text(text: &str, declared: &str) -> String {
    let [precision, scale] = split_sizes(declared).1.map(Option::unwrap_or_default);
    let whole_digits = precision.saturating_sub(scale);
    format!(
        "CONVERT({declared}, CASE WHEN {text} LIKE N'%[0-9]%' AND {text} NOT LIKE N'%[^-0-9.]%' AND CHARINDEX(N'.', REPLACE({text}, N'-', N'') + N'.') <= {} THEN {text} END)",
        whole_digits + 1
    )
}

/// Returns a text as a value of a variable.
fn variable_of_text(text: &str, group: &Column) -> String {
    /// ISO 8601.
    const TIMES: &str = ", 126";

    let style = match group.kind {
        ColumnType::Text => return text.to_owned(),
        ColumnType::DateTime | ColumnType::DateTimeOffset => TIMES,
        ColumnType::Decimal => return decimal_of_text(text, &group.declared),
        _ => "",
    };
    format!("TRY_CONVERT({}, {text}{style})", group.declared)
}

/// Sets the placeholders of the claim's sections. Queues without groups and limits have none of them.
pub(super) fn set_placeholders(placeholders: &mut Placeholders, sql: &LeaseSql, queue: &QueueSpec) {
    for part in PARTS {
        placeholders.insert(part, String::new());
    }
    placeholders.insert("share_without_suspect", "all".to_owned());
    if !queue.takes_turns() {
        return;
    }
    let section = |placeholders: &Placeholders, name| render(sql.groups, name, placeholders);
    let optional = |placeholders: &Placeholders, name| match queue.groups {
        Some(_) => section(placeholders, name),
        None => String::new(),
    };
    for name in [
        "declare_walk",
        "read_walk",
        "write_walk",
        "read_paused_groups",
    ] {
        let text = optional(placeholders, name);
        let text = match name {
            "declare_walk" | "read_paused_groups" if !text.is_empty() => format!("\n{text}"),
            _ => text,
        };
        placeholders.insert(name, text);
    }
    if queue.groups_burst() {
        append(
            placeholders,
            "declare_walk",
            &section(placeholders, "declare_burst"),
        );
    }
    placeholders.insert("hold_claims", section(placeholders, "take_turn"));
    for (placeholder, name) in [
        ("bound_wanted", "bound_wanted"),
        ("tell_limits", "tell_limits"),
    ] {
        placeholders.insert(
            placeholder,
            format!("\n{}", section(placeholders, name).trim_start()),
        );
    }
    if let Some(groups) = &queue.groups {
        set_walk_placeholders(placeholders, sql, groups);
    }
}

/// Sets the placeholders of the walk over groups.
fn set_walk_placeholders(placeholders: &mut Placeholders, sql: &LeaseSql, groups: &Groups) {
    let section = |placeholders: &Placeholders, name| render(sql.groups, name, placeholders);
    placeholders.insert("turn_column", ", lb_turn int NULL".to_owned());
    placeholders.insert("share_without_suspect", "others".to_owned());
    for bounds in [
        "visit_first",
        "visit_after",
        "visit_until",
        "visit_between",
        "visit_one",
    ] {
        placeholders.insert("bounds", section(placeholders, bounds));
        placeholders.insert(bounds, section(placeholders, "visit"));
    }
    placeholders.insert("next_group", section(placeholders, "next_in_turn"));
    placeholders.insert("begin_given", String::new());
    placeholders.insert("rate_size", section(placeholders, "rate_size"));
    let first_of_group = |placeholders: &mut Placeholders, of_group: String| {
        placeholders.insert("of_group", of_group);
        let states = placeholders["behind_states"].clone();
        let behind = states.split(", ").map(|state| {
            let mut placeholders = placeholders.clone();
            placeholders.insert("behind_state", state.to_owned());
            format!(
                "\n                    {}",
                section(&placeholders, "first_behind")
            )
        });
        let behind = behind.collect();
        placeholders.insert("first_behind", behind);
        let text = section(placeholders, "first_of_group");
        placeholders.insert("first_of_group", text);
    };
    let (size, suspect) = if groups.is_strict() {
        ("strict_size", "strict_suspect")
    } else {
        ("parallel_size", "parallel_suspect")
    };
    let of_variable = placeholders["group_value"].clone();
    first_of_group(placeholders, of_variable);
    placeholders.insert("size", section(placeholders, size));
    let of_row = format!("t.{}", placeholders["group"]);
    first_of_group(placeholders, of_row);
    placeholders.insert("suspect_size", section(placeholders, suspect));
    placeholders.insert("or_overdue", String::new());
    if groups.bursts() {
        placeholders.insert("or_overdue", section(placeholders, "or_overdue"));
    }
    placeholders.insert("suspect_is_free", section(placeholders, "suspect_is_free"));
    placeholders.insert("suspect_is_given", String::new());
    set_busy_suspects(placeholders, sql);
    if groups.bursts() {
        append(placeholders, "size", &section(placeholders, "begin_burst"));
        append(
            placeholders,
            "rate_size",
            &section(placeholders, "end_burst"),
        );
    }
}

/// Renders the part that tells whether groups hold suspects back.
fn set_busy_suspects(placeholders: &mut Placeholders, sql: &LeaseSql) {
    let tell = render(sql.groups, "tell_busy_suspects", placeholders);
    let tell = format!("\n{}", tell.trim_start());
    placeholders.insert("tell_busy_suspects", tell);
}

/// Appends lines to the text of a placeholder.
fn append(placeholders: &mut Placeholders, part: &'static str, lines: &str) {
    let text = format!("{}\n{lines}", placeholders[part]);
    placeholders.insert(part, text);
}

/// Makes the claim one for the groups that its call names. It takes no turn from the others.
pub(super) fn set_given_groups(placeholders: &mut Placeholders, sql: &LeaseSql) {
    let section = |placeholders: &Placeholders, name| render(sql.groups, name, placeholders);
    let declare = section(placeholders, "declare_given");
    let hold = format!("{}\n{declare}", placeholders["hold_claims"]);
    let suspect = section(placeholders, "suspect_is_given");
    // It never exceeds the limits, because it looks at no other group.
    placeholders.insert("or_overdue", String::new());
    let is_free = section(placeholders, "suspect_is_free");
    placeholders.insert("suspect_is_free", is_free.clone());
    placeholders.insert("suspect_is_given", suspect.clone());
    set_busy_suspects(placeholders, sql);
    let is_free = is_free + &suspect;
    for (part, text) in [
        ("hold_claims", hold),
        ("suspect_is_free", is_free),
        ("next_group", section(placeholders, "next_given")),
        (
            "begin_given",
            format!(
                "\n{}",
                section(placeholders, "begin_given").trim_start_matches('\n')
            ),
        ),
        ("write_walk", String::new()),
    ] {
        placeholders.insert(part, text);
    }
}

/// Returns whether the claim moves the turn of the groups. One for the groups that its call names does not.
fn moves_turn(placeholders: &Placeholders) -> bool {
    !placeholders["write_walk"].is_empty()
}

/// Sets the section that writes the turn back. `leased_items` is set.
pub(super) fn set_end(placeholders: &mut Placeholders, sql: &LeaseSql, queue: &QueueSpec) {
    if !queue.takes_turns() {
        return;
    }
    let names: &[&str] = match queue.groups {
        Some(_) if moves_turn(placeholders) => {
            &["count_given", "charge_groups", "end_walk", "end_turn"]
        }
        Some(_) => &["count_given", "charge_groups", "end_turn"],
        None => &["count_given", "end_turn"],
    };
    let sections = names
        .iter()
        .map(|name| render(sql.groups, name, placeholders) + "\n");
    let text = sections.collect();
    placeholders.insert("end_turn", text);
}

/// Renders the walk over groups, which picks up to `pick_count` items.
pub(super) fn walk(placeholders: &Placeholders, sql: &LeaseSql, queue: &QueueSpec) -> String {
    let mut placeholders = placeholders.clone();
    let section = |name| render(sql.groups, name, &placeholders);
    let is_strict = queue.groups.as_ref().is_some_and(Groups::is_strict);
    let except = placeholders["except_suspects"].clone();
    let (in_group, heads) = match is_strict {
        _ if except.is_empty() => (String::new(), String::new()),
        true => (
            String::new(),
            format!("\n{}", section("except_heads").trim_start_matches('\n')),
        ),
        false => (except, String::new()),
    };
    let no_group = if moves_turn(&placeholders) {
        section("end_of_groups")
    } else {
        String::new()
    };
    for (part, text) in [
        ("except_in_group", in_group),
        ("except_heads", heads),
        ("no_group", no_group),
    ] {
        placeholders.insert(part, text);
    }
    let section = |name| render(sql.groups, name, &placeholders);
    let (file, items) = run_parts::items_of_group(sql, queue);
    let items = render(file, items, &placeholders);
    let can_give_more = section("give_more");
    let exceed_limits = if queue.groups_burst() && moves_turn(&placeholders) {
        format!("\n{}", section("exceed_limits"))
    } else {
        String::new()
    };
    placeholders.insert("head_of_group", items);
    placeholders.insert("give_more", can_give_more);
    placeholders.insert("exceed_limits", exceed_limits);
    debug_assert!(queue.groups.is_some());
    render(sql.groups, "walk", &placeholders)
}
