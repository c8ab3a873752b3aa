//! The names of the environment variables of settings.

use toml::{Table, Value};

use super::DEFAULT;

/// Environment variables that start with this prefix can be settings.
pub const VARIABLE_PREFIX: &str = "LEASE_BROKER_";
/// Separates the parts of a key in the name of a variable.
pub const SETTING_SEPARATOR: &str = "__";

/// Returns the variables of all settings in the default configuration, except those of single queues.
pub fn setting_variables() -> Vec<String> {
    let mut names = Vec::new();
    // The default configuration is part of the program. A test parses it.
    let defaults = DEFAULT.parse::<Table>().unwrap_or_default();
    for (section, settings) in defaults.iter().filter(|(section, _)| *section != "queues") {
        collect(section, settings, &mut names);
    }
    names
}

fn collect(key: &str, value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Table(settings) => {
            for (name, value) in settings {
                collect(&format!("{key}{SETTING_SEPARATOR}{name}"), value, names);
            }
        }
        _ => names.push(format!("{VARIABLE_PREFIX}{}", key.to_ascii_uppercase())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_the_settings_of_all_sections() {
        let names = setting_variables();
        for name in [
            "SERVER__LISTEN",
            "STORE__PATH",
            "QUEUE_DEFAULTS__BACKOFF__MAX",
        ] {
            assert!(names.contains(&format!("LEASE_BROKER_{name}")), "{name}");
        }
    }
}
