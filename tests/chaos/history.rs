//! The history of a run: the calls of all journals, ordered by lease, and the tables at its end.

use std::collections::BTreeMap;
use std::path::Path;

use crate::chaos::journal::{self, Answer, Asked, Ending, Entry, Lease};

/// A call with its answer.
#[derive(Debug)]
pub(crate) struct Call {
    /// The name of the process.
    pub(crate) process: String,
    pub(crate) sent: u64,
    pub(crate) asked: Asked,
    /// Time and answer. `None`: the process was killed before the answer came.
    pub(crate) answered: Option<(u64, Answer)>,
}

/// A row of the queue's table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: i64,
    pub(crate) payload: String,
    pub(crate) state: i64,
    pub(crate) fence: i64,
    pub(crate) attempt: i64,
}

/// The value of [`Row::state`] for a completed item.
pub(crate) const COMPLETED: i64 = 3;

/// A time during which a process was stopped.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    pub(crate) process: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// All that is known about a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) calls: Vec<Call>,
    pub(crate) pauses: Vec<Pause>,
    pub(crate) rows: Vec<Row>,
    /// The payloads of the items that completions added.
    pub(crate) follow_ups: Vec<String>,
}

/// A claim that returned a lease.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) sent: u64,
    pub(crate) at: u64,
    pub(crate) request_id: String,
    pub(crate) time_left_ms: u64,
}

/// A heartbeat or a settlement of one lease.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) sent: u64,
    /// The time of the answer. `None`: there was none.
    pub(crate) answered: Option<u64>,
    /// `None`: a heartbeat.
    pub(crate) ending: Option<Ending>,
    pub(crate) result: Outcome,
}

/// The result of a call for one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The call was applied. For a heartbeat the time that is left, otherwise 0.
    Applied(u64),
    Refused,
    /// The call failed or was not answered. It may have been applied.
    Unknown,
}

/// All calls about one lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) grants: Vec<Grant>,
    pub(crate) uses: Vec<Use>,
}

impl Story {
    /// Returns the settlements of this kind.
    pub(crate) fn endings(&self, ending: Ending) -> impl Iterator<Item = &Use> {
        let is_kind = move |used: &&Use| used.ending == Some(ending);
        self.uses.iter().filter(is_kind)
    }

    /// Returns whether a settlement of this kind was applied.
    pub(crate) fn is_applied(&self, ending: Ending) -> bool {
        let is_applied = |used: &Use| matches!(used.result, Outcome::Applied(_));
        self.endings(ending).any(is_applied)
    }

    /// Returns whether a settlement of this kind may have been applied.
    pub(crate) fn may_be_applied(&self, ending: Ending) -> bool {
        let mut endings = self.endings(ending);
        endings.any(|used| used.result != Outcome::Refused)
    }
}

impl History {
    /// Reads the journals of a folder.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut history = Self::default();
        for file in std::fs::read_dir(folder).expect("a folder") {
            let path = file.expect("a file").path();
            if path.extension().is_some_and(|name| name == "journal") {
                let process = path.file_stem().expect("a name").to_string_lossy();
                history.add(&process, journal::read(&path));
            }
        }
        history
    }

    fn add(&mut self, process: &str, lines: Vec<journal::Line>) {
        let mut calls: BTreeMap<u64, Call> = BTreeMap::new();
        for line in lines {
            match line.entry {
                Entry::Asked(asked) => {
                    let call = Call {
                        process: process.to_owned(),
                        sent: line.at,
                        asked,
                        answered: None,
                    };
                    calls.insert(line.call, call);
                }
                Entry::Answered(answer) => {
                    let call = calls.get_mut(&line.call).expect("a call before its answer");
                    call.answered = Some((line.at, answer));
                }
            }
        }
        self.calls.extend(calls.into_values());
    }

    /// Returns the calls about each lease, ordered by key and fencing token.
    pub(crate) fn stories(&self) -> BTreeMap<Lease, Story> {
        let mut stories: BTreeMap<Lease, Story> = BTreeMap::new();
        for call in &self.calls {
            let answer = call.answered.as_ref();
            match &call.asked {
                Asked::Claim { request_id } => {
                    let Some((at, Answer::Claimed { leases })) = answer else {
                        continue;
                    };
                    for granted in leases {
                        stories
                            .entry(granted.lease)
                            .or_default()
                            .grants
                            .push(Grant {
                                sent: call.sent,
                                at: *at,
                                request_id: request_id.clone(),
                                time_left_ms: granted.time_left_ms,
                            });
                    }
                }
                Asked::Heartbeat { leases } => {
                    let result = |index: usize| match answer {
                        Some((_, Answer::Extended { time_left_ms })) => {
                            time_left_ms[index].map_or(Outcome::Refused, Outcome::Applied)
                        }
                        _ => Outcome::Unknown,
                    };
                    add_uses(&mut stories, call, None, leases, result);
                }
                Asked::Settle { ending, leases } => {
                    let result = |index: usize| match answer {
                        Some((_, Answer::Settled { outcomes })) if outcomes[index] == 1 => {
                            Outcome::Applied(0)
                        }
                        Some((_, Answer::Settled { .. })) => Outcome::Refused,
                        _ => Outcome::Unknown,
                    };
                    add_uses(&mut stories, call, Some(*ending), leases, result);
                }
                Asked::Enqueue { .. } | Asked::Insert { .. } => {}
            }
        }
        self.mark_repeated(&mut stories);
        stories
    }

    /// Marks refused calls as unknown if a copy of the call may have been applied.
    ///
    /// A load balancer can send a call twice. If the first copy makes the item ready, another worker can get it before the second
    /// copy comes. The second copy is then refused, and the worker sees only its answer.
    fn mark_repeated(&self, stories: &mut BTreeMap<Lease, Story>) {
        let fences: BTreeMap<i64, i64> = self.rows.iter().map(|row| (row.key, row.fence)).collect();
        // The key, and the time at which a worker first had a greater fencing token.
        let mut next: Option<(i64, u64)> = None;
        for (lease, story) in stories.iter_mut().rev() {
            let next_at = next.filter(|(key, _)| *key == lease.key).map(|(_, at)| at);
            let has_next = fences
                .get(&lease.key)
                .is_some_and(|last| *last > lease.fence);
            for used in &mut story.uses {
                let makes_ready = matches!(used.ending, Some(Ending::Release | Ending::Fail));
                let is_before_next = next_at.map_or(has_next, |at| used.sent < at);
                if makes_ready && used.result == Outcome::Refused && is_before_next {
                    used.result = Outcome::Unknown;
                }
            }
            let granted_at = story.grants.iter().map(|grant| grant.at).min();
            let first = granted_at.into_iter().chain(next_at).min();
            next = first.map(|at| (lease.key, at));
        }
    }
}

fn add_uses(
    stories: &mut BTreeMap<Lease, Story>,
    call: &Call,
    ending: Option<Ending>,
    leases: &[Lease],
    result: impl Fn(usize) -> Outcome,
) {
    for (index, lease) in leases.iter().enumerate() {
        stories.entry(*lease).or_default().uses.push(Use {
            sent: call.sent,
            answered: call.answered.as_ref().map(|(at, _)| *at),
            ending,
            result: result(index),
        });
    }
}
