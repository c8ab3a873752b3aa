//! Suggests a name for one that was mistyped.

/// The similarity from which a name is suggested, between 0 and 1. clap uses the same for flags.
const MIN_SIMILARITY: f64 = 0.7;

/// Returns the candidate that is most similar to a name. `None`: no candidate is similar.
pub(super) fn most_similar<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = name.to_lowercase();
    best(candidates, |candidate| {
        strsim::jaro(&lower, &candidate.to_lowercase())
    })
}

/// Returns the first candidate of the highest similarity, if it is high enough.
pub(super) fn best<T>(
    candidates: impl IntoIterator<Item = T>,
    similarity: impl Fn(&T) -> f64,
) -> Option<T> {
    let scored = candidates.into_iter().map(|candidate| {
        let score = similarity(&candidate);
        (candidate, score)
    });
    let scored = scored.filter(|(_, score)| *score > MIN_SIMILARITY);
    let best = scored.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(candidate, _)| candidate)
}
