//! Environment variables that have the prefix of this program and that it does not read. Such a variable is probably a
//! mistyped one, so each command warns of it.

use clap::{Arg, Command};

use super::similar::best;
use crate::config::{SETTING_SEPARATOR, VARIABLE_PREFIX, is_setting, setting_variables};

/// A variable that no command reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownVariable {
    pub(super) name: String,
    /// The variable that was probably meant.
    pub(super) similar: Option<String>,
}

/// Prefixes of variables that tests read, and that `work` sets for its commands.
const KNOWN_PREFIXES: [&str; 2] = ["TEST_", "ITEM_"];
/// Variables of the build. cargo sets the second one for a program that it runs.
const OF_BUILD: [&str; 2] = ["COMMIT", "RUSTC"];

/// Returns the unknown variables of this process. `program`: the flags of all commands, which variables can stand for.
pub(super) fn unknown_variables(program: &Command) -> Vec<UnknownVariable> {
    let variables = std::env::vars_os();
    let variables = variables.map(|(name, value)| {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        (text(name), text(value))
    });
    unknown_of(program, variables)
}

fn unknown_of(
    program: &Command,
    variables: impl Iterator<Item = (String, String)>,
) -> Vec<UnknownVariable> {
    let mut flags = Vec::new();
    collect_flags(program, &mut flags);
    let is_unknown = |name: &str, value: &str| {
        let Some(rest) = name.strip_prefix(VARIABLE_PREFIX) else {
            return false;
        };
        let is_known = rest.contains(SETTING_SEPARATOR) && is_setting(name)
            || flags.iter().any(|flag| flag == name)
            || KNOWN_PREFIXES.iter().any(|prefix| rest.starts_with(prefix))
            || OF_BUILD.contains(&rest)
            || is_of_kubernetes(rest, value);
        !is_known
    };
    let unknown = variables.filter(|(name, value)| is_unknown(name, value));
    let mut unknown: Vec<UnknownVariable> = unknown
        .map(|(name, _)| UnknownVariable {
            // The settings of single queues are no candidates.
            similar: most_similar(&name, flags.iter().cloned().chain(setting_variables()))
                .filter(|_| !is_of_queue(&name)),
            name,
        })
        .collect();
    unknown.sort_by(|left, right| left.name.cmp(&right.name));
    unknown
}

fn is_of_queue(name: &str) -> bool {
    let rest = name.strip_prefix(VARIABLE_PREFIX);
    rest.is_some_and(|rest| rest.starts_with(&format!("QUEUES{SETTING_SEPARATOR}")))
}

/// Adds the variables that stand for flags of a command and of its subcommands.
fn collect_flags(command: &Command, names: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(Arg::get_env);
    names.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    for command in command.get_subcommands() {
        collect_flags(command, names);
    }
}

/// Returns whether Kubernetes sets the variable for a service whose name begins with `lease-broker`.
fn is_of_kubernetes(rest: &str, value: &str) -> bool {
    let is_url = value.starts_with("tcp://") || value.starts_with("udp://");
    rest.ends_with("SERVICE_HOST")
        || rest.contains("SERVICE_PORT")
        || (rest.contains("PORT") && (is_url || rest.contains("_TCP") || rest.contains("_UDP")))
}

/// Returns the most similar variable. A setting is also similar if the name lacks its section, as in `LEASE_BROKER_LISTEN`.
fn most_similar(name: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    /// The preference for a name that is similar as a whole.
    const WITHOUT_SECTION: f64 = 0.95;

    let rest = |name: &str| name.trim_start_matches(VARIABLE_PREFIX).to_owned();
    let name = rest(name);
    best(candidates, |candidate| {
        let candidate = rest(candidate);
        let last = candidate
            .rsplit(SETTING_SEPARATOR)
            .next()
            .unwrap_or_default();
        let without_section = strsim::jaro(&name, last) * WITHOUT_SECTION;
        strsim::jaro(&name, &candidate).max(without_section)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn unknown(names: &[&str]) -> Vec<UnknownVariable> {
        let variables = names.iter().map(|text| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (format!("LEASE_BROKER_{name}"), value.to_owned())
        });
        unknown_of(&Cli::command(), variables)
    }

    #[test]
    fn mistyped_variable_has_a_suggestion() {
        for (name, similar) in [
            ("LISTEN", "SERVER__LISTEN"),
            ("SERVER_LISTEN", "SERVER__LISTEN"),
            ("SERVER__LITSEN", "SERVER__LISTEN"),
            ("STORE_PATH", "STORE__PATH"),
            ("LOG_LEVEL", "LOG__LEVEL"),
            ("ADRESS", "ADDRESS"),
            ("TOKENFILE", "TOKEN_FILE"),
        ] {
            let expected = UnknownVariable {
                name: format!("LEASE_BROKER_{name}"),
                similar: Some(format!("LEASE_BROKER_{similar}")),
            };
            assert_eq!(unknown(&[name]), [expected]);
        }
        assert_eq!(unknown(&["XYZ"])[0].similar, None);
        assert_eq!(unknown(&["QUEUES__MAIL__TABEL"])[0].similar, None);
    }

    #[test]
    fn known_variables_are_not_reported() {
        let known = [
            "ADDRESS",
            "CONFIG",
            "KEY",
            "SERVER__LISTEN",
            "SERVER__TLS__KEY",
            "AUTH__TOKENS_FILE",
            "QUEUES__MAIL__TABLE",
            "QUEUES__MAIL__BACKOFF__MAX",
            "TEST_MSSQL",
            "ITEM_KEY",
            "RUSTC",
            "SERVICE_HOST=10.0.0.1",
            "SERVICE_PORT_GRPC=50051",
            "PORT=tcp://10.0.0.1:50051",
            "PORT_50051_TCP_ADDR=10.0.0.1",
            "ADMIN_SERVICE_HOST=10.0.0.2",
        ];
        assert_eq!(unknown(&known), []);
        assert_eq!(unknown(&["PORT=50051"]).len(), 1);
    }
}
