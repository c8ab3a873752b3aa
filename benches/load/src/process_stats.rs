//! The processes and files that a run observes, and the hardware of this machine.
//!
//! On systems without `/proc`, every value is unknown, which is `None`.

use std::fs::{metadata, read_to_string};
use std::path::PathBuf;
use std::time::Duration;

use lease_broker::process::{cpu_time, read_bytes, read_field, resident_bytes};
use serde::Serialize;

/// The process and the file to observe during a run, where they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// The broker's process id.
    pub(crate) broker: Option<u32>,
    /// The store's SQLite file.
    pub(crate) store_file: Option<PathBuf>,
}

impl Watch {
    /// Returns the CPU time that the broker has used.
    pub(crate) fn broker_cpu(&self) -> Option<Duration> {
        cpu_time(self.broker?)
    }

    /// Returns the bytes of memory that the broker uses now.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        resident_bytes(self.broker?)
    }

    /// Returns the most bytes of memory that the broker has used since its start.
    pub(crate) fn peak_resident_bytes(&self) -> Option<u64> {
        read_bytes(&format!("/proc/{}/status", self.broker?), "VmHWM")
    }

    /// Returns the size of the SQLite file and its write-ahead log.
    pub(crate) fn store_bytes(&self) -> Option<u64> {
        let file = self.store_file.as_ref()?;
        let mut log = file.clone().into_os_string();
        log.push("-wal");
        Some(metadata(file).ok()?.len() + metadata(log).map_or(0, |log| log.len()))
    }
}

/// The hardware and the kernel, on which the figures depend.
#[derive(Serialize)]
pub(crate) struct Machine {
    cores: usize,
    cpu: Option<String>,
    memory_bytes: Option<u64>,
    kernel: Option<String>,
}

impl Machine {
    /// Describes the machine that runs this process.
    pub(crate) fn current() -> Self {
        let kernel = read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: read_field("/proc/cpuinfo", "model name"),
            memory_bytes: read_bytes("/proc/meminfo", "MemTotal"),
            kernel: kernel.map(|release| release.trim().to_owned()),
        }
    }
}
