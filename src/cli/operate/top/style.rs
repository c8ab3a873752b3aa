//! The styles of the screen. With `NO_COLOR` they have no colours.

use ratatui::style::{Color, Modifier, Style};

/// The styles.
#[derive(Clone, Copy)]
pub(super) struct Styles {
    pub(super) title: Style,
    pub(super) header: Style,
    pub(super) selected: Style,
    /// Something that a person should look at.
    pub(super) warning: Style,
    pub(super) faint: Style,
}

impl Styles {
    /// Returns the styles for this environment.
    pub(super) fn new() -> Self {
        Self::with_colour(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    fn with_colour(has_colour: bool) -> Self {
        let colour = |colour| {
            if has_colour {
                Style::new().fg(colour)
            } else {
                Style::new()
            }
        };
        Self {
            title: colour(Color::Cyan).add_modifier(Modifier::BOLD),
            header: Style::new().add_modifier(Modifier::BOLD),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            warning: colour(Color::Yellow).add_modifier(Modifier::BOLD),
            faint: Style::new().add_modifier(Modifier::DIM),
        }
    }
}
