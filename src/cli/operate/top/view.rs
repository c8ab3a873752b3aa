//! Draws the screen.

use std::time::Duration;

use lease_broker_model::text;
use lease_broker_proto::{self as proto, ItemState};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

use super::model::{Model, Question, QueueItem, count_of};
use super::style::Styles;
use crate::cli::operate::brokers::broker_state;
use crate::cli::operate::queue_row::{mode_name, pause_text, rate_text};
use crate::cli::output::std_duration;

const KEYS: &str =
    "up/down select  Enter open  Esc back  s sort  r reverse  p pause/resume  q quit";

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

fn count_text(queue: &proto::QueueSummary, state: ItemState) -> String {
    if queue.counts.is_empty() {
        return "-".to_owned();
    }
    let count = count_of(queue, state);
    format!("{}{}", count.count, if count.at_least { "+" } else { "" })
}

/// Returns a duration in its two largest units.
fn short(duration: Option<Duration>) -> String {
    let Some(duration) = duration else {
        return "-".to_owned();
    };
    let whole = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    let units: Vec<&str> = whole.split(' ').take(2).collect();
    units.join(" ")
}

fn draw_queues(frame: &mut Frame, area: Rect, model: &Model, styles: Styles) {
    let row = |queue: &proto::QueueSummary| {
        let rates = queue.rates.unwrap_or_default();
        let dead = count_text(queue, ItemState::Dead);
        let dead_style = match count_of(queue, ItemState::Dead).count {
            0 => styles.faint,
            _ => styles.warning,
        };
        let paused = queue.pause.as_ref();
        Row::new([
            Cell::from(text::cell(&queue.queue).into_owned()),
            Cell::from(count_text(queue, ItemState::Ready)),
            Cell::from(count_text(queue, ItemState::Leased)),
            Cell::from(count_text(queue, ItemState::Delayed)),
            Cell::from(dead).style(dead_style),
            Cell::from(short(std_duration(queue.oldest_ready))),
            Cell::from(short(std_duration(queue.oldest_lease))),
            Cell::from(rate_text(rates.claimed)),
            Cell::from(rate_text(rates.completed)),
            Cell::from(rate_text(rates.failed)),
            Cell::from(paused.map_or("", |pause| mode_name(pause.mode()))).style(styles.warning),
        ])
    };
    let widths = [
        Constraint::Min(8),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(7),
    ];
    let header = [
        "queue", "ready", "leased", "delayed", "dead", "oldest", "lease", "clm/s", "done/s",
        "fail/s", "paused",
    ];
    let queues = model.snapshot.queues.iter();
    let selected = queues
        .clone()
        .position(|queue| queue.queue == model.selected);
    let table = Table::new(queues.map(row), widths)
        .header(Row::new(header).style(styles.header))
        .row_highlight_style(styles.selected);
    let mut state = TableState::default().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_queue(frame: &mut Frame, area: Rect, queue: &proto::QueueSummary, styles: Styles) {
    let counts = [
        ("ready", ItemState::Ready),
        ("leased", ItemState::Leased),
        ("delayed", ItemState::Delayed),
        ("completed", ItemState::Completed),
        ("dead", ItemState::Dead),
    ]
    .map(|(name, state)| format!("{name} {}", count_text(queue, state)));
    let rates = queue.rates.unwrap_or_default();
    let rates = [
        ("claimed", rates.claimed),
        ("completed", rates.completed),
        ("failed", rates.failed),
        ("expired", rates.expired),
        ("enqueued", rates.enqueued),
    ]
    .map(|(name, rate)| format!("{name} {}/s", rate_text(rate)));
    let mut lines = vec![
        Line::styled(
            format!(
                "Queue {} in table {}",
                text::cell(&queue.queue),
                text::cell(&queue.table)
            ),
            styles.header,
        ),
        Line::from(counts.join("  ")),
        Line::from(format!(
            "oldest ready {}  oldest lease {}  waiting claims {}",
            short(std_duration(queue.oldest_ready)),
            short(std_duration(queue.oldest_lease)),
            queue.waiting_claims
        )),
        Line::from(rates.join("  ")),
    ];
    if let Some(pause) = &queue.pause {
        lines.push(Line::styled(
            text::cell(&pause_text(pause)).into_owned(),
            styles.warning,
        ));
    }
    if !queue.problem.is_empty() {
        lines.push(Line::styled(
            text::cell(&queue.problem).into_owned(),
            styles.warning,
        ));
    }
    for operation in &queue.operations {
        lines.push(Line::from(format!(
            "operation {} has changed {} items",
            operation.operation_id, operation.changed
        )));
    }
    lines.push(Line::styled(
        text::cell(&queue.settings_json).into_owned(),
        styles.faint,
    ));
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
    let rows = items.take(area.height.into()).map(|found| {
        let item = &found.item;
        Row::new(
            [
                text::cell(&found.queue),
                text::cell(&item.key),
                text::cell(&item.owner),
                short(found.age()).into(),
                item.attempt.to_string().into(),
                text::cell(&item.error),
            ]
            .map(|text| Cell::from(text.into_owned())),
        )
    });
    let widths = [
        Constraint::Max(16),
        Constraint::Max(20),
        Constraint::Max(20),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Fill(1),
    ];
    let header = Row::new([title, "key", "worker", "since", "attempt", "error"]);
    let widths_with_title = {
        let mut widths = widths;
        let length = u16::try_from(title.chars().count()).unwrap_or(16);
        widths[0] = Constraint::Length(length.max(13));
        widths
    };
    let table = Table::new(rows, widths_with_title).header(header.style(styles.header));
    frame.render_widget(table, area);
}

fn draw_brokers(frame: &mut Frame, area: Rect, brokers: &[proto::BrokerInstance], styles: Styles) {
    let row = |broker: &proto::BrokerInstance| {
        let state = broker_state(broker);
        let style = match state {
            "draining" => styles.warning,
            "gone" => styles.faint,
            _ => ratatui::style::Style::new(),
        };
        let differing = match &broker.differing_queues[..] {
            [] => String::new(),
            queues => format!("other settings: {}", queues.join(", ")),
        };
        Row::new(
            [
                broker.broker_id.clone(),
                broker.address.clone(),
                broker.version.clone(),
                state.to_owned(),
                differing,
            ]
            .map(|text| Cell::from(text::cell(&text).into_owned())),
        )
        .style(style)
    };
    let widths = [
        Constraint::Length(36),
        Constraint::Max(24),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Fill(1),
    ];
    let header = Row::new(["Brokers", "address", "version", "state", ""]);
    let table = Table::new(brokers.iter().map(row), widths).header(header.style(styles.header));
    frame.render_widget(table, area);
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
