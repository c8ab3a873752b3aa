//! Reads ADO.NET connection strings: the keywords that matter to a broker, with all their spellings; one that it does not
//! know is an error that names it, and no error ever shows a value.
//!
//! The driver has a reader of its own, which passes over keywords that it does not know (`Trust Server Certificate`, as
//! newer tools write it) and takes ASCII only.

use tiberius::{AuthMethod, Config, EncryptionLevel};

/// What has no meaning here, or is set elsewhere: strings are copied from portals and other programs.
const IGNORED: &[&str] = &[
    "commandtimeout",
    "connectionlifetime",
    "connectionresetretrycount",
    "connectiontimeout",
    "connectretrycount",
    "connectretryinterval",
    "connecttimeout",
    "enlist",
    "loadbalancetimeout",
    "maxpoolsize",
    "minpoolsize",
    "multipleactiveresultsets",
    "persistsecurityinfo",
    "poolblockingperiod",
    "pooling",
    "timeout",
];

/// Reads a connection string.
///
/// # Errors
/// What is wrong, with the keyword to blame and without its value.
pub(super) fn parse(text: &str) -> Result<Config, String> {
    let mut config = Config::new();
    config.application_name("lease-broker");
    let (mut user, mut password) = (String::new(), String::new());
    let (mut trusts, mut authority) = (false, None);
    let mut server = None;
    for (keyword, value) in pairs(text)? {
        let name: String = keyword.chars().filter(|c| !c.is_whitespace()).collect();
        match &*name.to_ascii_lowercase() {
            "server" | "datasource" | "address" | "addr" | "networkaddress" => server = Some(value),
            "database" | "initialcatalog" => config.database(value),
            "userid" | "uid" | "user" | "username" => user = value,
            "password" | "pwd" => password = value,
            "encrypt" => config.encryption(encryption(&value)?),
            "trustservercertificate" => trusts = yes(&keyword, &value)?,
            "trustservercertificateca" => authority = Some(value),
            "hostnameincertificate" => config.hostname_in_certificate(value),
            "applicationname" | "app" => config.application_name(value),
            "applicationintent" => config.readonly(value.eq_ignore_ascii_case("readonly")),
            "multisubnetfailover" => config.multi_subnet_failover(yes(&keyword, &value)?),
            "workstationid" | "wsid" => config.client_name(value),
            "packetsize" => match value.parse() {
                Ok(size @ 512..=32_767) => config.packet_size(size),
                _ => return Err(format!("{keyword:?} is not between 512 and 32767")),
            },
            "integratedsecurity" | "trustedconnection" => {
                if value.eq_ignore_ascii_case("sspi") || yes(&keyword, &value)? {
                    return Err(format!(
                        "{keyword:?}: a Windows login can't be used; name a SQL Server login, or store.access_token_file"
                    ));
                }
            }
            "authentication" => {
                if !value
                    .to_ascii_lowercase()
                    .replace(' ', "")
                    .eq("sqlpassword")
                {
                    return Err(format!(
                        "{keyword:?}: besides SqlPassword only an access token can be used (store.access_token_file)"
                    ));
                }
            }
            known if IGNORED.contains(&known) => {}
            _ => return Err(format!("the keyword {keyword:?} is not known")),
        }
    }
    let server = server.ok_or("it names no server: server=HOST,PORT is needed")?;
    name_server(&mut config, &server)?;
    config.authentication(AuthMethod::sql_server(user, password));
    match (trusts, authority) {
        (true, Some(_)) => {
            let both = "TrustServerCertificate=true makes TrustServerCertificateCA meaningless";
            return Err(both.to_owned());
        }
        (true, None) => config.trust_cert(),
        (false, Some(path)) => config.trust_cert_ca(path),
        (false, None) => {}
    }
    Ok(config)
}

fn encryption(value: &str) -> Result<EncryptionLevel, String> {
    match &*value.to_ascii_lowercase() {
        "true" | "yes" | "mandatory" => Ok(EncryptionLevel::Required),
        "false" | "no" | "optional" => Ok(EncryptionLevel::Off),
        "danger_plaintext" => Ok(EncryptionLevel::NotSupported),
        _ => Err("\"Encrypt\" is none of true, false and DANGER_PLAINTEXT".to_owned()),
    }
}

fn yes(keyword: &str, value: &str) -> Result<bool, String> {
    match &*value.to_ascii_lowercase() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(format!("{keyword:?} is neither true nor false")),
    }
}

/// Reads `[tcp:]HOST[\INSTANCE][,PORT]`.
fn name_server(config: &mut Config, server: &str) -> Result<(), String> {
    let address = match server.split_once(':') {
        Some((protocol, rest)) if protocol.eq_ignore_ascii_case("tcp") => rest,
        Some((protocol @ ("np" | "lpc" | "admin"), _)) => {
            return Err(format!("the server's protocol {protocol:?} is not tcp"));
        }
        _ => server,
    };
    let (host, port) = match address.split_once(',') {
        Some((host, port)) => {
            let port: u16 = port
                .trim()
                .parse()
                .map_err(|_| "the server's port is not between 0 and 65535")?;
            (host, Some(port))
        }
        None => (address, None),
    };
    let host = match host.split_once('\\') {
        Some((host, _)) if port.is_some() => host,
        Some((_, instance)) => {
            return Err(format!(
                "the instance {instance:?} needs its port, as in server=HOST\\{instance},PORT: SQL Server Browser is not \
                 asked"
            ));
        }
        None => host,
    };
    let host = match host.trim() {
        "." | "(local)" => "localhost",
        host => host.trim_start_matches('[').trim_end_matches(']'),
    };
    config.host(host);
    config.port(port.unwrap_or(1433));
    Ok(())
}

/// Splits `keyword=value;…`, where a value may stand in quotes, a quote within them doubled, or in braces.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(';') {
            rest = after.trim_start();
            continue;
        }
        let (keyword, after) = rest
            .split_once('=')
            .ok_or("its parts are keyword=value, separated by semicolons")?;
        let keyword = keyword.trim().to_owned();
        let after = after.trim_start();
        let (value, after) = match after.chars().next() {
            Some(quote @ ('\'' | '"')) => quoted(&after[1..], quote)
                .ok_or_else(|| format!("the value of {keyword:?} has no closing {quote}"))?,
            Some('{') => {
                let (value, after) = after[1..]
                    .split_once('}')
                    .ok_or_else(|| format!("the value of {keyword:?} has no closing brace"))?;
                (value.to_owned(), after)
            }
            _ => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        rest = after.trim_start();
        if !rest.is_empty() && !rest.starts_with(';') {
            return Err(format!("text follows the quoted value of {keyword:?}"));
        }
        pairs.push((keyword, value));
    }
    Ok(pairs)
}

/// Reads up to the closing quote, and returns what follows it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once(quote)?;
        value.push_str(before);
        match after.strip_prefix(quote) {
            Some(after) => {
                value.push(quote);
                rest = after;
            }
            None => return Some((value, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_from_a_portal_is_taken_as_it_is() {
        let text = "Server=tcp:x.database.windows.net,1433;Initial Catalog=db;Persist Security Info=False;User ID=u;\
                    Password={p;w'\"=};MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;\
                    Connection Timeout=30;";
        let config = parse(text).expect("valid");
        assert_eq!(config.get_addr(), "x.database.windows.net:1433");
    }

    #[test]
    fn spellings_with_blanks_and_quoted_values_are_read() {
        let text = "data source = host\\inst , 1500 ; Multi Subnet Failover=yes; Trust Server Certificate = true; \
                    pwd='it''s; ☂';uid=\"a\"\"b\"";
        let config = parse(text).expect("valid");
        assert_eq!(config.get_addr(), "host:1500");
        assert!(config.get_multi_subnet_failover());
        let pairs = pairs(text).expect("valid");
        assert_eq!(pairs[3].1, "it's; ☂");
        assert_eq!(pairs[4].1, "a\"b");
    }

    #[test]
    fn what_is_wrong_is_named_and_no_value_is_shown() {
        for (text, named) in [
            ("database=secret", "server"),
            ("server=h;pasword=secret", "pasword"),
            ("server=h;password='secret", "password"),
            ("server=h;password='a'secret", "password"),
            ("server=h;secret", "keyword=value"),
            ("server=h\\inst;password=secret", "port"),
            ("server=h,99999;password=secret", "port"),
            ("server=np:h;password=secret", "np"),
            ("server=h;encrypt=secret", "Encrypt"),
            (
                "server=h;TrustServerCertificate=secret",
                "TrustServerCertificate",
            ),
            ("server=h;packet size=secret", "packet size"),
            ("server=h;Integrated Security=SSPI", "access_token_file"),
        ] {
            let Err(why) = parse(text) else {
                panic!("{text}")
            };
            assert!(why.contains(named), "{why}");
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
