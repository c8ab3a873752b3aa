//! The keys of the screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::{Model, Question};

/// The maximum length of a reason that is typed, in characters.
const MAX_REASON: usize = 200;

/// What a key asks for, beyond the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    /// Look at the leases and failures of this queue only. `None`: of all.
    Open(Option<String>),
    Pause {
        queue: String,
        reason: String,
    },
    Resume {
        queue: String,
    },
}

impl Model {
    /// Acts on a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Command> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Command::Quit);
        }
        if let Some(question) = self.question.take() {
            return self.answer(question, key.code);
        }
        self.message.clear();
        match key.code {
            KeyCode::Char('q') => return Some(Command::Quit),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Char('p') => self.ask(),
            KeyCode::Enter if self.selected_queue().is_some() => {
                self.is_open = true;
                return Some(Command::Open(Some(self.selected.clone())));
            }
            KeyCode::Esc if self.is_open => {
                self.is_open = false;
                return Some(Command::Open(None));
            }
            _ => return None,
        }
        // The arrows go to another queue while one is open.
        self.is_open
            .then(|| Command::Open(Some(self.selected.clone())))
    }

    /// Asks if the selected queue shall be paused or resumed.
    fn ask(&mut self) {
        let Some(selected) = self.selected_queue() else {
            return;
        };
        let queue = selected.queue.clone();
        self.question = Some(match selected.pause {
            Some(_) => Question::Resume { queue },
            None => Question::Pause {
                queue,
                reason: String::new(),
            },
        });
    }

    fn answer(&mut self, question: Question, key: KeyCode) -> Option<Command> {
        match (question, key) {
            (Question::Resume { queue }, KeyCode::Char('y' | 'Y')) => {
                Some(Command::Resume { queue })
            }
            (_, KeyCode::Esc) | (Question::Resume { .. }, _) => None,
            (Question::Pause { queue, reason }, KeyCode::Enter) => {
                Some(Command::Pause { queue, reason })
            }
            (Question::Pause { queue, mut reason }, key) => {
                match key {
                    KeyCode::Backspace => drop(reason.pop()),
                    KeyCode::Char(character) if reason.chars().count() < MAX_REASON => {
                        reason.push(character);
                    }
                    _ => {}
                }
                self.question = Some(Question::Pause { queue, reason });
                None
            }
        }
    }
}
