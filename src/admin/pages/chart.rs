//! Charts as SVG, drawn by the server.

use std::fmt::Write as _;

use maud::{Markup, html};

/// A line of a chart.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// The class, which gives the colour and the dashes.
    pub(super) class: &'a str,
    pub(super) values: Vec<f64>,
}

/// Returns a small line without axes. A screen reader reads `label`.
pub(super) fn sparkline(values: &[f64], label: &str) -> Markup {
    let (width, height) = (120.0, 28.0);
    let top = values.iter().copied().fold(0.0_f64, f64::max);
    html! {
        svg.spark viewBox="0 0 120 28" width="120" height="28" role="img" aria-label=(label) {
            line.base x1="0" y1="27.5" x2="120" y2="27.5" { }
            @if top > 0.0 { polyline points=(points(values, width, height, top)) { } }
        }
    }
}

/// Returns a chart of several lines over the last minutes, with its largest value and a legend.
pub(super) fn chart(title: &str, unit: &str, lines: &[Line<'_>]) -> Markup {
    let (width, height) = (480.0, 120.0);
    let values = lines.iter().flat_map(|line| line.values.iter().copied());
    let top = values.fold(0.0_f64, f64::max);
    html! {
        figure.chart {
            figcaption { (title) span.hint { " at most " (super::format::rate(top)) " " (unit) } }
            svg viewBox="0 0 480 120" role="img" aria-label=(title) preserveAspectRatio="none" {
                line.base x1="0" y1="119.5" x2="480" y2="119.5" { }
                line.grid x1="0" y1="60" x2="480" y2="60" { }
                @if top > 0.0 {
                    @for line in lines { polyline class=(line.class) points=(points(&line.values, width, height, top)) { } }
                }
            }
            ul.legend { @for line in lines { li { span class={ "key " (line.class) } { } (line.name) } } }
        }
    }
}

/// Returns the points of a line that ends at the right edge. A full line has 180 values.
fn points(values: &[f64], width: f64, height: f64, top: f64) -> String {
    let step = width / 179.0;
    // At most 180 values.
    #[expect(clippy::cast_precision_loss)]
    let start = width - step * (values.len().saturating_sub(1)) as f64;
    let mut x = start;
    let mut text = String::new();
    for value in values {
        let y = (height - 2.0) * (1.0 - value / top) + 1.0;
        // Writing to a text does not fail.
        let _ = write!(text, "{x:.1},{y:.1} ");
        x += step;
    }
    text
}
