//! Draws the screen.

use lease_broker_model::text;
use lease_broker_proto::{self as proto, ItemState};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{self, Cell, Paragraph, Table, TableState, Wrap};

use super::model::{Model, Question, QueueItem};
use super::style::Styles;
use crate::cli::operate::brokers::broker_row;
use crate::cli::operate::item_row::item_row;
use crate::cli::operate::queue_row::{Columns, pause_text, queue_row, rate_text};
use crate::cli::output::Row;
use crate::grpc::Words as _;

const KEYS: &str =
    "up/down select  Enter open  Esc back  s sort  r reverse  p pause/resume  q quit";
/// The columns of a queue that other commands leave out.
const SHOWN: Columns = Columns {
    rates: true,
    paused: true,
    operations: false,
    problem: false,
};

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame, model: &Model) {
    let styles = Styles::new();
    let height = |entries: usize, min: u16| {
        let entries = u16::try_from(entries).unwrap_or(u16::MAX);
        entries.saturating_add(2).max(min)
    };
    let queues = if model.is_open {
        height(8, 0)
    } else {
        height(model.snapshot.queues.len(), 3).min(frame.area().height / 2)
    };
    let brokers = height(model.snapshot.brokers.len(), 3).min(frame.area().height / 5);
    let [title, top, leases, failures, bottom, message, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(queues),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(brokers),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_title(frame, title, model, styles);
    match (model.is_open, model.selected_queue()) {
        (true, Some(queue)) => draw_queue(frame, top, queue, styles),
        _ => draw_queues(frame, top, model, styles),
    }
    let of_queue = if model.is_open {
        format!(" of {}", model.selected)
    } else {
        String::new()
    };
    let title = format!("Oldest leases{of_queue}");
    draw_items(frame, leases, &title, model, &model.snapshot.leases, styles);
    let title = format!("Last dead items{of_queue}");
    draw_items(
        frame,
        failures,
        &title,
        model,
        &model.snapshot.failures,
        styles,
    );
    draw_brokers(frame, bottom, &model.snapshot.brokers, styles);
    draw_message(frame, message, model, styles);
    frame.render_widget(Line::styled(KEYS, styles.faint), keys);
}

fn draw_title(frame: &mut Frame, area: Rect, model: &Model, styles: Styles) {
    let order = if model.is_reversed { ", reversed" } else { "" };
    let text = format!(
        "lease-broker top  {}  sorted by {}{order}",
        text::cell(&model.place),
        model.sort.name()
    );
    frame.render_widget(Line::styled(text, styles.title), area);
}

fn draw_queues(frame: &mut Frame, area: Rect, model: &Model, styles: Styles) {
    const COLUMNS: [Column<'_>; 11] = [
        ("queue", "queue", Constraint::Min(8)),
        ("ready", "ready", Constraint::Length(7)),
        ("leased", "leased", Constraint::Length(7)),
        ("delayed", "delayed", Constraint::Length(7)),
        ("dead", "dead", Constraint::Length(6)),
        ("oldest_ready", "oldest", Constraint::Length(9)),
        ("oldest_lease", "lease", Constraint::Length(9)),
        ("claimed/s", "clm/s", Constraint::Length(6)),
        ("completed/s", "done/s", Constraint::Length(6)),
        ("failed/s", "fail/s", Constraint::Length(6)),
        ("paused", "paused", Constraint::Length(7)),
    ];

    let queues = model.snapshot.queues.iter();
    let selected = queues
        .clone()
        .position(|queue| queue.queue == model.selected);
    let rows = queues.map(|queue| queue_row(queue, SHOWN));
    draw_table(frame, area, &COLUMNS, rows, selected, styles);
}

fn draw_queue(frame: &mut Frame, area: Rect, queue: &proto::QueueSummary, styles: Styles) {
    let row = queue_row(queue, SHOWN);
    let counts = ItemState::WORDS.iter();
    let counts: Vec<String> = counts
        .map(|(_, name)| format!("{name} {}", row.text(name)))
        .collect();
    let rates = queue.rates.unwrap_or_default();
    let rates = [
        ("claimed", rates.claimed),
        ("completed", rates.completed),
        ("failed", rates.failed),
        ("expired", rates.expired),
        ("enqueued", rates.enqueued),
    ]
    .map(|(name, rate)| format!("{name} {}/s", rate_text(rate)));
    let cell = |text: &str| text::cell(text).into_owned();
    let mut lines = vec![
        Line::styled(
            format!(
                "Queue {} in table {}",
                row.text("queue"),
                cell(&queue.table)
            ),
            styles.header,
        ),
        Line::from(counts.join("  ")),
        Line::from(format!(
            "oldest ready {}  oldest lease {}  waiting claims {}",
            row.text("oldest_ready"),
            row.text("oldest_lease"),
            queue.waiting_claims
        )),
        Line::from(rates.join("  ")),
    ];
    let pause = queue.pause.as_ref().map(pause_text);
    let problem = Some(queue.problem.clone()).filter(|problem| !problem.is_empty());
    let warnings = pause.into_iter().chain(problem);
    lines.extend(warnings.map(|warning| Line::styled(cell(&warning), styles.warning)));
    for operation in &queue.operations {
        lines.push(Line::from(format!(
            "operation {} has changed {} items",
            operation.operation_id, operation.changed
        )));
    }
    lines.push(Line::styled(cell(&queue.settings_json), styles.faint));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

fn draw_items(
    frame: &mut Frame,
    area: Rect,
    title: &str,
    model: &Model,
    items: &[QueueItem],
    styles: Styles,
) {
    // Until the next look, the items are those of all queues.
    let items = items
        .iter()
        .filter(|item| !model.is_open || item.queue == model.selected);
    let rows = items.take(area.height.into());
    let rows = rows.map(|found| item_row(&found.item).first("queue", &*found.queue));
    let length = u16::try_from(title.chars().count()).unwrap_or(16);
    let columns = [
        ("queue", title, Constraint::Length(length.max(13))),
        ("key", "key", Constraint::Max(20)),
        ("owner", "worker", Constraint::Max(20)),
        ("since", "since", Constraint::Length(9)),
        ("attempt", "attempt", Constraint::Length(8)),
        ("error", "error", Constraint::Fill(1)),
    ];
    draw_table(frame, area, &columns, rows, None, styles);
}

fn draw_brokers(frame: &mut Frame, area: Rect, brokers: &[proto::BrokerInstance], styles: Styles) {
    const COLUMNS: [Column<'_>; 5] = [
        ("broker_id", "Brokers", Constraint::Length(36)),
        ("address", "address", Constraint::Max(24)),
        ("version", "version", Constraint::Length(8)),
        ("state", "state", Constraint::Length(8)),
        ("differing_queues", "other settings", Constraint::Fill(1)),
    ];

    let rows = brokers.iter().map(broker_row);
    draw_table(frame, area, &COLUMNS, rows, None, styles);
}

/// A column of a table: the name of its field, its heading, and its width.
type Column<'a> = (&'a str, &'a str, Constraint);

/// Draws rows as the commands for one kind of them print them.
fn draw_table(
    frame: &mut Frame,
    area: Rect,
    columns: &[Column<'_>],
    rows: impl Iterator<Item = Row>,
    selected: Option<usize>,
    styles: Styles,
) {
    let drawn = |row: Row| {
        let cell = |(name, ..): &Column<'_>| {
            let text = text::visible(row.text(name)).into_owned();
            Cell::from(text).style(cell_style(&row, name, styles))
        };
        widgets::Row::new(columns.iter().map(cell).collect::<Vec<_>>())
    };
    let header = columns.iter().map(|(_, heading, _)| *heading);
    let table = Table::new(rows.map(drawn), columns.iter().map(|(.., width)| *width))
        .header(widgets::Row::new(header).style(styles.header))
        .row_highlight_style(styles.selected);
    let mut state = TableState::default().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut state);
}

fn cell_style(row: &Row, name: &str, styles: Styles) -> Style {
    match (name, row.text(name), row.text("state")) {
        ("dead" | "paused", "0" | "-", _) | (_, _, "gone") => styles.faint,
        ("dead" | "paused", ..) | (_, _, "draining") => styles.warning,
        _ => Style::new(),
    }
}

fn draw_message(frame: &mut Frame, area: Rect, model: &Model, styles: Styles) {
    let message = match &model.question {
        Some(Question::Pause { queue, reason }) => {
            format!("Pause queue {queue}? Reason: {reason}_  (Enter pauses, Esc does not)")
        }
        Some(Question::Resume { queue }) => format!("Resume queue {queue}? [y/N]"),
        None => model.message.clone(),
    };
    let message = text::cell(&message).into_owned();
    frame.render_widget(Line::styled(message, styles.warning), area);
}
