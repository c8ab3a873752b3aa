//! Questions to a person at a terminal.

use std::io::{self, IsTerminal as _, Write as _, stderr, stdin};

use lease_broker_model::text::visible_lines;

use super::CommandError;

/// Returns whether a person can answer questions: standard input and standard error are a terminal.
pub(super) fn is_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks a question, and returns true if the answer is yes. Without a terminal it asks nothing and returns true: the flags of the
/// command are its confirmation.
///
/// The answer is a line, so the terminal stays in its usual mode. A signal that ends the command meanwhile leaves nothing to restore.
pub(super) fn confirm_in_terminal(question: &str) -> Result<bool, CommandError> {
    if !is_terminal() {
        return Ok(true);
    }
    let answer = ask(question);
    answer.map_err(|error| CommandError::io(format!("no answer: {error}")))
}

fn ask(question: &str) -> io::Result<bool> {
    write!(stderr(), "{} [y/N] ", visible_lines(question))?;
    let mut answer = String::new();
    if stdin().read_line(&mut answer)? == 0 {
        // The answer was Ctrl-D, which ends no line.
        writeln!(stderr())?;
    }
    let answer = answer.trim();
    Ok(["y", "yes"]
        .iter()
        .any(|yes| answer.eq_ignore_ascii_case(yes)))
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
