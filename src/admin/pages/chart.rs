//! Charts as SVG, drawn by the server. They cover the time of their samples up to now, from 2 to 15 minutes. While the database does not
//! answer there are no samples, and the lines have a gap.

use std::fmt::{self, Write as _};
use std::time::Duration;

use maud::{Markup, html};

use super::format;

/// The least number of minutes that a chart covers. A new broker knows few samples, and these would be a wide line.
const MIN_MINUTES: u64 = 2;
/// The time between two samples from which on others are missing. Normally it is 5 s.
const GAP: Duration = Duration::from_secs(15);

/// A value of a line.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// The time since it was measured.
    pub(super) age: Duration,
    pub(super) value: f64,
}

/// A line of a chart.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// The class, which gives the colour and the dashes.
    pub(super) class: &'a str,
    /// The oldest first.
    pub(super) samples: Vec<Sample>,
}

impl Line<'_> {
    /// Returns the present value. `None`: the last one is too old.
    fn present(&self) -> Option<f64> {
        let last = self.samples.last().filter(|last| last.age < GAP);
        last.map(|last| last.value)
    }
}

/// The time that a chart covers, in whole minutes. It is printed as `2 min`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    minutes: u64,
}

impl Span {
    /// Returns the time that samples of these ages take.
    pub(super) fn of(ages: impl Iterator<Item = Duration>) -> Self {
        let seconds = ages.max().unwrap_or_default().as_secs_f64().ceil();
        // At most 15 minutes.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let minutes = (seconds as u64).div_ceil(60);
        Self {
            minutes: minutes.max(MIN_MINUTES),
        }
    }

    /// Returns the place of a sample. The right edge is now.
    fn place(self, age: Duration, width: f64) -> f64 {
        let all = Duration::from_secs(self.minutes * 60);
        width * (1.0 - age.as_secs_f64() / all.as_secs_f64())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} min", self.minutes)
    }
}

/// Returns a small line without axes. A screen reader reads `label`.
pub(super) fn sparkline(samples: &[Sample], span: Span, label: &str) -> Markup {
    let values = samples.iter().map(|sample| sample.value);
    let top = values.fold(0.0_f64, f64::max);
    html! {
        svg.spark viewBox="0 0 120 28" width="120" height="28" role="img" aria-label=(label) {
            line.base x1="0" y1="27.5" x2="120" y2="27.5" { }
            (line(samples, span, (120.0, 28.0), top, None))
        }
    }
}

/// Returns a chart of several lines, with its largest value, its present values and its time. `unit`: such as `per second`.
pub(super) fn chart(title: &str, unit: &str, lines: &[Line<'_>]) -> Markup {
    let size = (480.0, 120.0);
    let samples = lines.iter().flat_map(|line| &line.samples);
    let span = Span::of(samples.clone().map(|sample| sample.age));
    let top = samples.map(|sample| sample.value).fold(0.0_f64, f64::max);
    html! {
        figure.chart {
            figcaption { strong { (title) } " " span.hint { (unit) ", at most " (format::rate(top)) } }
            svg viewBox="0 0 480 120" role="img" aria-label=(title) preserveAspectRatio="none" {
                line.base x1="0" y1="119.5" x2="480" y2="119.5" { }
                line.grid x1="0" y1="60" x2="480" y2="60" { }
                line.grid x1="0" y1="0.5" x2="480" y2="0.5" { }
                @for drawn in lines { (line(&drawn.samples, span, size, top, Some(drawn.class))) }
            }
            div.axis aria-hidden="true" { span { (span) " ago" } span { "now" } }
            ul.legend {
                @for line in lines {
                    li { span class={ "key " (line.class) } { } (line.name) " " b { (line.present().map_or("–".to_owned(), format::rate)) } }
                }
            }
        }
    }
}

/// Draws a line and the area below it, in parts between its gaps. Without a value above 0 there is nothing to see.
fn line(samples: &[Sample], span: Span, size: (f64, f64), top: f64, class: Option<&str>) -> Markup {
    html! {
        @if top > 0.0 {
            @for part in samples.chunk_by(|one, next| one.age.saturating_sub(next.age) < GAP) {
                @let points = points(part, span, size, top);
                polygon class=[class] points=(area(part, &points, span, size)) { }
                polyline class=[class] points=(points) { }
            }
        }
    }
}

/// Returns the points of a part of a line.
fn points(part: &[Sample], span: Span, (width, height): (f64, f64), top: f64) -> String {
    let mut text = String::new();
    for sample in part {
        let x = span.place(sample.age, width);
        let y = (height - 2.0) * (1.0 - sample.value / top) + 1.0;
        // Writing to a text does not fail.
        let _ = write!(text, "{x:.1},{y:.1} ");
    }
    text
}

/// Returns the points of the area below a part of a line.
fn area(part: &[Sample], points: &str, span: Span, (width, height): (f64, f64)) -> String {
    let edge = |sample: Option<&Sample>| {
        let age = sample.map(|sample| sample.age).unwrap_or_default();
        span.place(age, width)
    };
    let (first, last) = (edge(part.first()), edge(part.last()));
    format!("{first:.1},{height} {points}{last:.1},{height}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, value: f64) -> Sample {
        let age = Duration::from_secs(seconds);
        Sample { age, value }
    }

    #[test]
    fn samples_are_drawn_at_their_time() {
        let (two, size) = (Span { minutes: 2 }, (120.0, 10.0));
        let part = [sample(30, 1.0), sample(20, 2.0)];
        let points = points(&part, two, size, 2.0);
        assert_eq!(points, "90.0,5.0 100.0,1.0 ");
        let area = area(&part, &points, two, size);
        assert_eq!(area, "90.0,10 90.0,5.0 100.0,1.0 100.0,10");
    }

    #[test]
    fn line_has_a_gap_where_samples_are_missing() {
        let samples = [(80, 1.0), (75, 2.0), (10, 1.0), (5, 1.0)];
        let samples = samples.map(|(seconds, value)| sample(seconds, value));
        let span = Span { minutes: 2 };
        let drawn = line(&samples, span, (120.0, 10.0), 2.0, None).into_string();
        assert_eq!(drawn.matches("<polyline").count(), 2, "{drawn}");
        let line = |samples| Line {
            name: "claimed",
            class: "one",
            samples,
        };
        assert_eq!(line(samples.to_vec()).present(), Some(1.0));
        assert_eq!(line(samples[..2].to_vec()).present(), None);
    }

    #[test]
    fn chart_covers_whole_minutes_and_two_or_more() {
        for (millis, text) in [
            (0, "2 min"),
            (120_000, "2 min"),
            (120_001, "3 min"),
            (900_000, "15 min"),
        ] {
            let ages = [5_000, millis].map(Duration::from_millis);
            assert_eq!(Span::of(ages.into_iter()).to_string(), text);
        }
    }
}
