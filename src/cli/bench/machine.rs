//! The machine that the bench runs on, as far as the kernel tells.

use std::fs::read_to_string;

/// What figures depend on.
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) cpu: Option<String>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) kernel: Option<String>,
}

impl Machine {
    pub(super) fn this() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: field("/proc/cpuinfo", "model name"),
            memory_bytes: field("/proc/meminfo", "MemTotal").and_then(|size| {
                let kibibytes: u64 = size.strip_suffix(" kB")?.parse().ok()?;
                Some(kibibytes * 1_024)
            }),
            kernel: read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|release| release.trim().to_owned()),
        }
    }
}

/// Returns the first value of that name in a file of `name: value` lines.
fn field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}
