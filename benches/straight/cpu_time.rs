//! CPU time of processes, read from `/proc`.

use std::path::Path;
use std::time::Duration;

/// A process id. A server with one process per session is measured with its children.
#[derive(Clone, Copy)]
pub(crate) enum Process {
    Alone(u32),
    WithChildren(u32),
}

impl Process {
    /// Returns the CPU time that all threads have used. `None`: unknown.
    pub(crate) fn cpu_time(self) -> Option<Duration> {
        match self {
            Self::Alone(id) => Some(stat(&id.to_string())?.own),
            Self::WithChildren(id) => {
                let parent = stat(&id.to_string())?;
                let entries = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
                let running = entries.filter_map(|entry| stat(entry.file_name().to_str()?));
                let children = running.filter(|other| other.parent == id);
                let children: Duration = children.map(|child| child.own).sum();
                Some(parent.own + parent.ended_children + children)
            }
        }
    }
}

struct Stat {
    parent: u32,
    own: Duration,
    ended_children: Duration,
}

fn stat(id: &str) -> Option<Stat> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")).ok()?;
    // The second field is the program's name in brackets, which can contain spaces and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let time = |at: usize| -> Option<Duration> {
        let ticks =
            fields.get(at)?.parse::<u64>().ok()? + fields.get(at + 1)?.parse::<u64>().ok()?;
        Some(Duration::from_millis(ticks * 1_000 / ticks_per_second))
    };
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: time(11)?,
        ended_children: time(13)?,
    })
}
