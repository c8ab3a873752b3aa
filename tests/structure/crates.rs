//! Checks which modules name external crates.

use super::imports::place;
use super::rules::CrateRule;
use super::tree::Tree;

/// Returns a text for each path that names a crate where it does not belong, and for each place of the table that does not
/// name the crates.
pub(crate) fn problems(tree: &Tree, rules: &[CrateRule]) -> Vec<String> {
    let mut problems = Vec::new();
    for rule in rules {
        let places: Vec<&str> = rule.places.iter().map(|(place, _)| *place).collect();
        let mut unused = places.clone();
        for (path, module) in &tree.modules {
            let name = path.join("/");
            let allowed = places.iter().find(|place| is_in(&name, place));
            let named = module.content.mentions.iter().filter(|mention| {
                let is_crate = rule.crates.contains(&mention.path[0].as_str());
                // A module of this source can have the same name.
                is_crate && tree.named(path, &mention.path, 0).is_none()
            });
            for mention in named {
                match allowed {
                    Some(allowed) => unused.retain(|place| place != allowed),
                    None => problems.push(format!(
                        "{}\n  The crate {} belongs to {}. Let that module do the work, and pass values of other types. \
                         CRATES in tests/structure/rules.rs has the rules.",
                        place(&module.file, mention),
                        mention.path[0],
                        places.join(", ")
                    )),
                }
            }
        }
        for place in unused {
            problems.push(format!(
                "CRATES in tests/structure/rules.rs: {place} does not name {}. Delete the place.",
                rule.crates.join(", ")
            ));
        }
    }
    problems
}

/// Returns whether a module is this place or inside it.
fn is_in(module: &str, place: &str) -> bool {
    let rest = module.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
