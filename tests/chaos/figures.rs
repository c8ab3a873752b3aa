//! The figures of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tonic::Code;

use crate::chaos::history::{COMPLETED, History, Outcome};
use crate::chaos::journal::Answer;
use crate::chaos::site::Site;

pub(crate) struct Figures {
    calls: usize,
    items: usize,
    completed: usize,
    leases: usize,
    leased_again: usize,
    applied: usize,
    refused: usize,
    unknown: usize,
    /// The failed calls by code and reason.
    errors: BTreeMap<String, usize>,
    faults: BTreeMap<&'static str, usize>,
    cut_connections: usize,
    faults_took: Duration,
    completion_took: Duration,
}

impl Figures {
    /// `times`: the time under faults, and the time from then until all items were completed.
    pub(crate) fn new(history: &History, site: &Site, times: [Duration; 2]) -> Self {
        let stories = history.stories();
        let settlements = stories.values().flat_map(|story| &story.uses);
        let settlements: Vec<Outcome> = settlements
            .filter(|used| used.ending.is_some())
            .map(|used| used.result)
            .collect();
        let count = |is_counted: fn(&Outcome) -> bool| {
            settlements
                .iter()
                .filter(|result| is_counted(result))
                .count()
        };
        let mut errors = BTreeMap::new();
        for call in &history.calls {
            if let Some((_, Answer::Error { code, reason, .. })) = &call.answered {
                let code = Code::from_i32(*code);
                let reason = reason.as_deref().unwrap_or("of the network");
                *errors.entry(format!("{code:?} {reason}")).or_default() += 1;
            }
        }
        Self {
            calls: history.calls.len(),
            items: history.rows.len(),
            completed: history
                .rows
                .iter()
                .filter(|row| row.state == COMPLETED)
                .count(),
            leases: stories
                .values()
                .filter(|story| !story.grants.is_empty())
                .count(),
            leased_again: history.rows.iter().filter(|row| row.fence > 1).count(),
            applied: count(|result| matches!(result, Outcome::Applied(_))),
            refused: count(|result| *result == Outcome::Refused),
            unknown: count(|result| *result == Outcome::Unknown),
            errors,
            faults: site.faults.clone(),
            cut_connections: site.cut_connections,
            faults_took: times[0],
            completion_took: times[1],
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number: usize = self.faults.values().sum();
        writeln!(f, "time                 {:.1?}", self.faults_took)?;
        writeln!(f, "until all completed  {:.1?}", self.completion_took)?;
        writeln!(f, "faults               {number}: {:?}", self.faults)?;
        writeln!(f, "connections cut      {}", self.cut_connections)?;
        writeln!(f, "calls                {}", self.calls)?;
        writeln!(
            f,
            "items                {}, completed {}",
            self.items, self.completed
        )?;
        let (leases, again) = (self.leases, self.leased_again);
        writeln!(
            f,
            "leases               {leases}, items leased again {again}"
        )?;
        let (applied, refused, unknown) = (self.applied, self.refused, self.unknown);
        writeln!(
            f,
            "settlements          {applied} applied, {refused} refused, {unknown} unknown"
        )?;
        writeln!(f, "failed calls         {:?}", self.errors)
    }
}
