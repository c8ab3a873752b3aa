//! The flag of the address in commands that a program prints for a person to run.

use super::client_args::DEFAULT_ADDRESS;

/// Returns the flag with which a command finds the service, after a space. Empty: the service has the default address.
pub(super) fn address_flag(scheme: &str, address: &str) -> String {
    // A service that listens on all addresses is also on this one.
    let address = address.replace("0.0.0.0:", "127.0.0.1:");
    if scheme == "http" && address == DEFAULT_ADDRESS.to_string() {
        return String::new();
    }
    format!(" --address {scheme}://{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_names_an_address_that_is_not_the_default() {
        let default = &DEFAULT_ADDRESS.to_string();
        assert_eq!(address_flag("http", default), "");
        assert_eq!(
            address_flag("http", "0.0.0.0:7000"),
            " --address http://127.0.0.1:7000"
        );
        let secure = format!(" --address https://{default}");
        assert_eq!(address_flag("https", default), secure);
    }
}
