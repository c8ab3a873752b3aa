//! What a process uses, as the kernel tells in /proc.

use std::path::Path;
use std::time::Duration;

/// A process to watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pid(pub(super) u32);

/// Bytes of memory that a process has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) resident: u64,
    /// The most that it has had since it started.
    pub(super) peak: u64,
}

impl Pid {
    pub(super) fn own() -> Self {
        Self(std::process::id())
    }

    /// Returns the processor time used so far, by all threads; none where it can't be known.
    pub(super) fn cpu(self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        // The program's name comes first, in brackets, and may hold anything.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ').skip(11);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        Some(Duration::from_millis((user + system) * 1_000 / ticks))
    }

    pub(super) fn memory(self) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kibibytes * 1_024)
        };
        Some(Memory {
            resident: field("VmRSS:")?,
            peak: field("VmHWM:")?,
        })
    }
}

/// Returns the size of a `SQLite` file with its write-ahead log.
pub(super) fn store_bytes(file: &Path) -> Option<u64> {
    let main = std::fs::metadata(file).ok()?.len();
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    Some(main + std::fs::metadata(log).map_or(0, |log| log.len()))
}
