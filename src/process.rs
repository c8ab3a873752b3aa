//! Resources that a process uses, read from `/proc`. On systems without `/proc`, every value is `None`.

use std::fmt::Display;
use std::fs::{read_dir, read_to_string};
use std::time::Duration;

/// Returns the CPU time that all threads of a process have used. `process`: its id, or `self`.
pub(crate) fn cpu_time(process: impl Display) -> Option<Duration> {
    let stat = read_to_string(format!("/proc/{process}/stat")).ok()?;
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

/// Returns the bytes of memory that a process uses now.
pub(crate) fn resident_bytes(process: impl Display) -> Option<u64> {
    read_bytes(&format!("/proc/{process}/status"), "VmRSS")
}

/// Returns the number of file descriptors that this process has open.
pub(crate) fn open_file_descriptors() -> Option<u64> {
    // The listing itself uses one descriptor while it is read.
    let open = read_dir("/proc/self/fd").ok()?.count();
    Some(open.saturating_sub(1) as u64)
}

/// Returns the first value with this name from a file of `name: value` lines.
pub(crate) fn read_field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}

/// Reads a value that is given in kB.
pub(crate) fn read_bytes(file: &str, name: &str) -> Option<u64> {
    let size = read_field(file, name)?;
    let kibibytes: u64 = size.strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1_024)
}
