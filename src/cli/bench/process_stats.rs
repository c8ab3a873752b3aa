//! Resources in use, read from `/proc`: CPU time and memory of a process, and the hardware of this machine.
//!
//! On systems without `/proc`, every value is unknown, which is `None`.

use std::fs::{metadata, read_to_string};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

/// The process and the file to observe during a run, where they are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// The broker's process id.
    pub(super) broker: Option<u32>,
    /// The store's SQLite file.
    pub(super) store_file: Option<PathBuf>,
}

impl Watch {
    /// Returns the CPU time that the broker has used.
    pub(super) fn broker_cpu(&self) -> Option<Duration> {
        cpu_time(self.broker?)
    }

    /// Returns the bytes of memory that the broker uses now.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        read_bytes(&format!("/proc/{}/status", self.broker?), "VmRSS")
    }

    /// Returns the most bytes of memory that the broker has used since its start.
    pub(super) fn peak_resident_bytes(&self) -> Option<u64> {
        read_bytes(&format!("/proc/{}/status", self.broker?), "VmHWM")
    }

    /// Returns the size of the SQLite file and its write-ahead log.
    pub(super) fn store_bytes(&self) -> Option<u64> {
        let file = self.store_file.as_ref()?;
        let mut log = file.clone().into_os_string();
        log.push("-wal");
        Some(metadata(file).ok()?.len() + metadata(log).map_or(0, |log| log.len()))
    }
}

/// Returns the CPU time that all threads of a process have used.
pub(super) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, which can contain spaces and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_millis(
        (user + system) * 1_000 / ticks_per_second,
    ))
}

/// The hardware and the kernel, on which the figures depend.
#[derive(Serialize)]
pub(super) struct Machine {
    cores: usize,
    cpu: Option<String>,
    memory_bytes: Option<u64>,
    kernel: Option<String>,
}

impl Machine {
    /// Describes the machine that runs this process.
    pub(super) fn current() -> Self {
        let kernel = read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: read_field("/proc/cpuinfo", "model name"),
            memory_bytes: read_bytes("/proc/meminfo", "MemTotal"),
            kernel: kernel.map(|release| release.trim().to_owned()),
        }
    }
}

/// Returns the first value with this name from a file of `name: value` lines.
fn read_field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}

/// Reads a value that is given in kB.
fn read_bytes(file: &str, name: &str) -> Option<u64> {
    let size = read_field(file, name)?;
    let kibibytes: u64 = size.strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1_024)
}
