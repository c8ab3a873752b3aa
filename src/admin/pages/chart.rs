//! Charts as SVG, drawn by the server. They cover the time that is known, from 2 to 15 minutes.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::format;

/// The seconds between two samples.
const SECONDS: usize = 5;
/// The least number of samples that a chart has room for. A new broker knows few, and these would be a short line at the edge.
const MIN_SAMPLES: usize = 24;

/// A line of a chart.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// The class, which gives the colour and the dashes.
    pub(super) class: &'a str,
    pub(super) values: Vec<f64>,
}

/// Returns the time that a chart of this number of samples covers, such as `2 min`.
pub(super) fn span(samples: usize) -> String {
    format!("{} min", (samples.max(MIN_SAMPLES) * SECONDS).div_ceil(60))
}

/// Returns a small line without axes. A screen reader reads `label`.
pub(super) fn sparkline(values: &[f64], samples: usize, label: &str) -> Markup {
    let top = values.iter().copied().fold(0.0_f64, f64::max);
    html! {
        svg.spark viewBox="0 0 120 28" width="120" height="28" role="img" aria-label=(label) {
            line.base x1="0" y1="27.5" x2="120" y2="27.5" { }
            @if top > 0.0 {
                @let points = points(values, samples, (120.0, 28.0), top);
                polygon points=(area(&points, values.len(), samples, (120.0, 28.0))) { }
                polyline points=(points) { }
            }
        }
    }
}

/// Returns a chart of several lines, with its largest value, its last values and its time. `unit`: such as `per second`.
pub(super) fn chart(title: &str, unit: &str, lines: &[Line<'_>]) -> Markup {
    let size = (480.0, 120.0);
    let values = lines.iter().flat_map(|line| line.values.iter().copied());
    let top = values.fold(0.0_f64, f64::max);
    let samples = lines.iter().map(|line| line.values.len()).max();
    let samples = samples.unwrap_or(0);
    html! {
        figure.chart {
            figcaption { strong { (title) } " " span.hint { (unit) ", at most " (format::rate(top)) } }
            svg viewBox="0 0 480 120" role="img" aria-label=(title) preserveAspectRatio="none" {
                line.base x1="0" y1="119.5" x2="480" y2="119.5" { }
                line.grid x1="0" y1="60" x2="480" y2="60" { }
                line.grid x1="0" y1="0.5" x2="480" y2="0.5" { }
                @if top > 0.0 {
                    @for line in lines {
                        @let points = points(&line.values, samples, size, top);
                        polygon class=(line.class) points=(area(&points, line.values.len(), samples, size)) { }
                        polyline class=(line.class) points=(points) { }
                    }
                }
            }
            div.axis aria-hidden="true" { span { (span(samples)) " ago" } span { "now" } }
            ul.legend {
                @for line in lines {
                    li { span class={ "key " (line.class) } { } (line.name) " " b { (format::rate(line.values.last().copied().unwrap_or(0.0))) } }
                }
            }
        }
    }
}

/// Returns the distance of two samples, and the place of the first one. The last one is at the right edge.
fn scale(count: usize, samples: usize, width: f64) -> (f64, f64) {
    // At most 180 samples.
    #[expect(clippy::cast_precision_loss)]
    let [count, samples] = [count, samples.max(MIN_SAMPLES)].map(|count| (count.max(1) - 1) as f64);
    let step = width / samples;
    (step, width - step * count)
}

/// Returns the points of a line that ends at the right edge.
fn points(values: &[f64], samples: usize, (width, height): (f64, f64), top: f64) -> String {
    let (step, mut x) = scale(values.len(), samples, width);
    let mut text = String::new();
    for value in values {
        let y = (height - 2.0) * (1.0 - value / top) + 1.0;
        // Writing to a text does not fail.
        let _ = write!(text, "{x:.1},{y:.1} ");
        x += step;
    }
    text
}

/// Returns the points of the area below a line.
fn area(points: &str, count: usize, samples: usize, (width, height): (f64, f64)) -> String {
    let (_, first) = scale(count, samples, width);
    format!("{first:.1},{height} {points}{width},{height}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_at_the_right_edge_and_covers_two_minutes_or_more() {
        assert_eq!(
            points(&[1.0, 2.0], 2, (23.0, 10.0), 2.0),
            "22.0,5.0 23.0,1.0 "
        );
        assert_eq!(area("", 2, 2, (23.0, 10.0)), "22.0,10 23,10");
        assert_eq!(points(&[0.0; 1], 180, (179.0, 10.0), 1.0), "179.0,9.0 ");
        assert_eq!(
            (span(0), span(25), span(180)),
            ("2 min".to_owned(), "3 min".to_owned(), "15 min".to_owned())
        );
    }
}
