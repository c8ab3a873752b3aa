//! The memory of a process, from Linux' `/proc`.

use std::collections::HashMap;

/// The resident memory of a process without the pages of files, such as its code. A debug build has much code, and reads
/// it from the disk when it first runs it.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    process: u32,
    at_start: u64,
}

impl Memory {
    /// Starts to record the peak. Returns `None` on a system without these files.
    pub(crate) fn start(process: u32) -> Option<Self> {
        std::fs::write(format!("/proc/{process}/clear_refs"), "5").ok()?;
        let at_start = peak_kib(process)?;
        Some(Self { process, at_start })
    }

    /// Returns the difference between the peak and the memory at the start, in MiB.
    pub(crate) fn peak_growth(&self) -> Option<u64> {
        Some(peak_kib(self.process)?.saturating_sub(self.at_start) / 1_024)
    }
}

fn peak_kib(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let lines: HashMap<_, _> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let kib = |name| {
        let (number, _) = lines.get(name)?.trim().split_once(' ')?;
        number.parse::<u64>().ok()
    };
    Some(kib("VmHWM")?.saturating_sub(kib("RssFile")?))
}
