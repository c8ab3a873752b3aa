//! Resources that a process uses, read from `/proc`, and its pauses. On systems without `/proc`, every value that is read from there is `None`.

mod pauses;

use std::fmt::Display;
use std::fs::{read_dir, read_to_string};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub use self::pauses::Pauses;

/// Returns the CPU time that all threads of a process have used. `process`: its id, or `self`.
pub fn cpu_time(process: impl Display) -> Option<Duration> {
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
pub fn resident_bytes(process: impl Display) -> Option<u64> {
    read_bytes(&format!("/proc/{process}/status"), "VmRSS")
}

/// Returns the bytes that are left for files beside this one. `None`: the file system does not tell.
pub fn free_bytes(file: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(file).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Returns the number of file descriptors that this process has open.
pub fn open_file_descriptors() -> Option<u64> {
    // The listing itself uses one descriptor while it is read.
    let open = read_dir("/proc/self/fd").ok()?.count();
    Some(open.saturating_sub(1) as u64)
}

/// Returns the number of file descriptors that this process may have open. `None`: no limit.
pub fn max_file_descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Returns the memory that the control group of this process may use, in bytes. `None`: no limit.
pub fn memory_limit() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    memory_limit_of(&groups, Path::new("/sys/fs/cgroup"))
}

/// Returns the smallest limit of the groups and of the groups that contain them. `groups`: the content of
/// `/proc/self/cgroup`.
fn memory_limit_of(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        // Version 2 has one hierarchy without a list of controllers.
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = Path::new(path.trim_start_matches('/'));
        let limits = group.ancestors().filter_map(|group| {
            let text = read_to_string(root.join(group).join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        });
        limits.min()
    });
    limits.min()
}

/// Returns the first value with this name from a file of `name: value` lines.
pub fn read_field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}

/// Reads a value that is given in kB.
pub fn read_bytes(file: &str, name: &str) -> Option<u64> {
    let size = read_field(file, name)?;
    let kibibytes: u64 = size.strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1_024)
}

/// Returns the name of this host.
pub fn host_name() -> Option<String> {
    let name = read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns an address for people on other hosts. If the program listens on all addresses of this host, it has the host's name.
pub fn host_address(address: SocketAddr) -> String {
    match host_name() {
        Some(host) if address.ip().is_unspecified() => {
            format!("{host}:{}", address.port())
        }
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_limit_of_nested_groups_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("created");
            std::fs::write(file, text).expect("written");
        };
        write("pod/memory.max", "1000\n");
        write("pod/container/memory.max", "max\n");
        let limit = |groups| memory_limit_of(groups, root.path());
        assert_eq!(limit("0::/pod/container\n"), Some(1_000));
        assert_eq!(limit("0::/other\n"), None);
        write("memory/memory.limit_in_bytes", "500\n");
        assert_eq!(limit("2:cpu:/a\n1:memory,hugetlb:/not/there\n"), Some(500));
    }
}
