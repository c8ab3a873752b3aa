//! Finds files that import each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::{Import, imports};
use super::tree::Tree;

/// The imports of each file, by the file that they need.
type Graph<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Import<'a>>>;

/// Returns a text for each group of files that import each other.
pub(crate) fn problems(tree: &Tree) -> Vec<String> {
    let imports = imports(tree);
    let mut graph = Graph::new();
    for import in &imports {
        let needed = graph.entry(import.from_file).or_default();
        needed.entry(import.defined_file).or_insert(import);
    }
    let mut grouped = BTreeSet::new();
    let mut problems = Vec::new();
    for file in graph.keys() {
        if grouped.contains(file) {
            continue;
        }
        let needed = reached(&graph, file);
        let group = needed.keys().copied();
        let group = group.filter(|other| reached(&graph, other).contains_key(file));
        let group: Vec<&str> = group.collect();
        if let Some(circle) = shortest_circle(&graph, &group) {
            let lines = circle.iter().map(|import| {
                let (place, file) = (import.place(), import.defined_file);
                format!("  {place} is in {file}\n")
            });
            problems.push(format!(
                "{} files import each other: {}. The shortest circle:\n{}  Move what both need to a file of its own, or let \
                 the caller pass it.",
                group.len(),
                group.join(", "),
                lines.collect::<String>()
            ));
        }
        grouped.extend(group);
    }
    problems
}

/// Returns the shortest circle among files. `None`: there is none.
fn shortest_circle<'a>(graph: &Graph<'a>, group: &[&str]) -> Option<Vec<&'a Import<'a>>> {
    let steps = group.iter().filter_map(|file| graph.get(file));
    let steps = steps.flat_map(BTreeMap::values).copied();
    let circles = steps.filter_map(|step| {
        let mut circle = vec![step];
        circle.extend(way(graph, step.defined_file, step.from_file)?);
        Some(circle)
    });
    circles.min_by_key(Vec::len)
}

/// Returns the shortest way from one file to another.
fn way<'a>(graph: &Graph<'a>, from: &'a str, to: &str) -> Option<Vec<&'a Import<'a>>> {
    let reached = reached(graph, from);
    let last = *reached.get(to)?;
    let steps = std::iter::successors(last, |step| reached[step.from_file]);
    let mut steps: Vec<_> = steps.collect();
    steps.reverse();
    Some(steps)
}

/// Returns the files that a file needs, itself and others, each with the last import of the shortest way to it.
fn reached<'a>(graph: &Graph<'a>, from: &'a str) -> BTreeMap<&'a str, Option<&'a Import<'a>>> {
    let mut reached = BTreeMap::from([(from, None)]);
    let mut next = VecDeque::from([from]);
    while let Some(file) = next.pop_front() {
        for (needed, import) in graph.get(file).into_iter().flatten() {
            if !reached.contains_key(needed) {
                reached.insert(*needed, Some(*import));
                next.push_back(*needed);
            }
        }
    }
    reached
}
