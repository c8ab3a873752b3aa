//! Questions to a person at a terminal.

use std::io::{IsTerminal as _, stderr, stdin};

use dialoguer::Confirm;

use super::CommandError;

/// Returns whether a person can answer questions: standard input and standard error are a terminal.
pub(super) fn is_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks a question, and returns true if the answer is yes. Without a terminal it asks nothing and returns true: the flags of the
/// command are its confirmation.
pub(super) fn confirm_in_terminal(question: &str) -> Result<bool, CommandError> {
    if !is_terminal() {
        return Ok(true);
    }
    let question = Confirm::new().with_prompt(question).default(false);
    Ok(question.interact()?)
}

/// Asks before a change of several things, unless `yes` is set.
///
/// # Errors
/// Exit code 3 if the answer is no. Exit code 64 if there is no terminal.
pub(super) fn confirm_change(question: &str, yes: bool) -> Result<(), CommandError> {
    if yes {
        return Ok(());
    }
    if !is_terminal() {
        return Err(CommandError::usage(format!(
            "the command asks: {question} There is no terminal for the answer; give --yes to answer yes, or --dry-run to count"
        )));
    }
    if confirm_in_terminal(question)? {
        Ok(())
    } else {
        Err(CommandError::not_confirmed("nothing was changed"))
    }
}

/// The error for a question that was not answered, such as one that Ctrl-C ended.
impl From<dialoguer::Error> for CommandError {
    fn from(error: dialoguer::Error) -> Self {
        Self::io(format!("no answer: {error}"))
    }
}
