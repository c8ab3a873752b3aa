//! Checks which clock the broker reads.

use super::imports::{place, top};
use super::tree::Tree;

/// Returns a text for each path that names the clock of the system where the clock of the runtime belongs. The simulation can move
/// only the second one: a decision by the first one gives a seed another history on a busy machine.
pub(crate) fn problems(tree: &Tree) -> Vec<String> {
    let broker = tree
        .modules
        .iter()
        .filter(|(path, _)| top(path) == "broker");
    let mentions = broker.flat_map(|(_, module)| {
        let mentions = module.content.mentions.iter();
        mentions.map(|mention| (&module.file, mention))
    });
    mentions
        .filter(|(_, mention)| mention.path.join("::").starts_with("std::time::Instant"))
        .map(|(file, mention)| format!("{}\n  Take tokio::time::Instant.", place(file, mention)))
        .collect()
}
