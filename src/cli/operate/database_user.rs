//! The user of a command that changes a database itself. No broker knows the user, so the command stores the name.

use std::fs::read_to_string;

use crate::process::host_name;

/// The maximum number of characters of a user's name.
const MAX_NAME: usize = 256;

/// Returns the user of the operating system and the host, such as `database:alice@host`.
pub(super) fn database_user() -> String {
    let id = rustix::process::geteuid().as_raw();
    let sudo_user = std::env::var("SUDO_USER").ok();
    let users = read_to_string("/etc/passwd").unwrap_or_default();
    let user = name_of(id, sudo_user, &users);
    let host = host_name().map_or_else(String::new, |host| format!("@{host}"));
    format!("database:{user}{host}")
}

/// Returns the name of the user with this id. `sudo_user`: the user who has called `sudo`. It counts for root only, and says more than
/// `root`. `users`: the content of `/etc/passwd`. A user that it lacks has its number as its name.
fn name_of(id: u32, sudo_user: Option<String>, users: &str) -> String {
    let sudo_user = sudo_user.filter(|name| {
        let is_printable = name.chars().all(|one| !one.is_control());
        id == 0 && is_printable && (1..=MAX_NAME).contains(&name.chars().count())
    });
    sudo_user.unwrap_or_else(|| {
        let mut users = users.lines().map(|line| line.split(':'));
        let name = users.find_map(|mut fields| {
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
        });
        name.unwrap_or_else(|| id.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";

    #[test]
    fn user_has_the_name_that_the_host_knows_or_the_number() {
        assert_eq!(name_of(1000, None, USERS), "alice");
        assert_eq!(name_of(1001, None, USERS), "1001");
        assert_eq!(name_of(0, None, ""), "0");
    }

    #[test]
    fn user_who_has_called_sudo_is_named_instead_of_root() {
        let sudo = |name: &str| Some(name.to_owned());
        assert_eq!(name_of(0, sudo("alice"), USERS), "alice");
        assert_eq!(name_of(1000, sudo("mallory"), USERS), "alice");
        assert_eq!(name_of(0, sudo("a\nb"), USERS), "root");
    }
}
