//! Parser of ADO.NET connection strings. It knows the keywords that matter to the broker, in all their spellings. An
//! unknown keyword is an error. Errors name the keyword and never show a value, because a value can be a password.
//!
//! The driver's own parser is not used. It silently ignores unknown keywords, such as `Trust Server Certificate` in the
//! spelling of newer tools, and it accepts ASCII only.

use tiberius::{AuthMethod, Config, EncryptionLevel};

/// Keywords that are accepted and ignored. They have no meaning here or are set elsewhere, but users copy strings that
/// contain them from portals and other programs.
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

/// Parses a connection string.
///
/// # Errors
/// The problem and the keyword, without its value.
pub(super) fn parse(text: &str) -> Result<Config, String> {
    let mut config = Config::new();
    config.application_name("lease-broker");
    let (mut user, mut password) = (String::new(), String::new());
    let mut encryption = EncryptionLevel::Required;
    let (mut trusts_any, mut authority) = (false, None);
    let mut is_windows_login = false;
    let mut server = None;
    for (keyword, value) in split_pairs(text)? {
        let name: String = keyword.chars().filter(|c| !c.is_whitespace()).collect();
        match &*name.to_ascii_lowercase() {
            "server" | "datasource" | "address" | "addr" | "networkaddress" => server = Some(value),
            "database" | "initialcatalog" => config.database(value),
            "userid" | "uid" | "user" | "username" => user = value,
            "password" | "pwd" => password = value,
            "encrypt" => encryption = parse_encryption(&value)?,
            "trustservercertificate" => trusts_any = parse_bool(&keyword, &value)?,
            "trustservercertificateca" => authority = Some(value),
            "hostnameincertificate" => config.hostname_in_certificate(value),
            "applicationname" | "app" => config.application_name(value),
            "applicationintent" => config.readonly(value.eq_ignore_ascii_case("readonly")),
            "multisubnetfailover" => config.multi_subnet_failover(parse_bool(&keyword, &value)?),
            "workstationid" | "wsid" => config.client_name(value),
            "packetsize" => match value.parse() {
                Ok(size @ 512..=32_767) => config.packet_size(size),
                _ => return Err(format!("{keyword:?} must be between 512 and 32767")),
            },
            "integratedsecurity" | "trusted_connection" | "trustedconnection" => {
                is_windows_login =
                    value.eq_ignore_ascii_case("sspi") || parse_bool(&keyword, &value)?;
            }
            "authentication" => {
                if !value
                    .to_ascii_lowercase()
                    .replace(' ', "")
                    .eq("sqlpassword")
                {
                    return Err(format!(
                        "{keyword:?}: only SqlPassword is supported; for an access token set store.access_token_file"
                    ));
                }
            }
            known if IGNORED.contains(&known) => {}
            _ => return Err(format!("unknown keyword {keyword:?}")),
        }
    }
    let server = server.ok_or("the server is missing: add server=HOST,PORT")?;
    parse_server(&mut config, &server)?;
    config.encryption(encryption);
    if user.is_empty() && !password.is_empty() && !is_windows_login {
        return Err("the user id is missing: add user id=NAME".to_owned());
    }
    config.authentication(if is_windows_login {
        windows_login(&user, &password)?
    } else {
        AuthMethod::sql_server(user, password)
    });
    match (trusts_any, authority) {
        (true, Some(_)) => {
            let both = "TrustServerCertificate=true and TrustServerCertificateCA exclude each other: remove one of them";
            return Err(both.to_owned());
        }
        (true, None) if encryption == EncryptionLevel::Strict => {
            let both = "Encrypt=strict and TrustServerCertificate=true exclude each other: strict always checks the certificate";
            return Err(both.to_owned());
        }
        (true, None) => {
            tracing::warn!("the server's certificate is not checked: TrustServerCertificate=true");
            config.trust_cert();
        }
        (false, Some(path)) => config.trust_cert_ca(path),
        (false, None) => {}
    }
    Ok(config)
}

/// Returns the database that a connection string names. `None`: it names none, so the login has a default one.
pub(super) fn database(text: &str) -> Option<String> {
    last_value(text, &["database", "initialcatalog"]).filter(|name| !name.is_empty())
}

/// Returns the file with certificates of authorities that a connection string names.
pub(super) fn authority(text: &str) -> Option<String> {
    last_value(text, &["trustservercertificateca"])
}

/// Returns the last value of a keyword, which is the one that counts. `names` has its spellings.
fn last_value(text: &str, names: &[&str]) -> Option<String> {
    let pairs = split_pairs(text).ok()?;
    let mut values = pairs.into_iter().filter_map(|(keyword, value)| {
        let name: String = keyword.chars().filter(|c| !c.is_whitespace()).collect();
        names
            .contains(&&*name.to_ascii_lowercase())
            .then_some(value)
    });
    values.next_back()
}

/// Returns the login with the Kerberos ticket of the process.
#[cfg(all(unix, feature = "kerberos"))]
fn windows_login(user: &str, password: &str) -> Result<AuthMethod, String> {
    if user.is_empty() && password.is_empty() {
        return Ok(AuthMethod::Integrated);
    }
    let both = "\"Integrated Security\" excludes user and password: the login is the principal of the Kerberos ticket";
    Err(both.to_owned())
}

#[cfg(not(all(unix, feature = "kerberos")))]
fn windows_login(_: &str, _: &str) -> Result<AuthMethod, String> {
    let missing = "\"Integrated Security\": this build has no Kerberos logins; build with --features kerberos, or use a SQL \
                   Server login or store.access_token_file";
    Err(missing.to_owned())
}

fn parse_encryption(value: &str) -> Result<EncryptionLevel, String> {
    match &*value.to_ascii_lowercase() {
        "true" | "yes" | "mandatory" => Ok(EncryptionLevel::Required),
        "false" | "no" | "optional" => Ok(EncryptionLevel::Off),
        "strict" => Ok(EncryptionLevel::Strict),
        "danger_plaintext" => Ok(EncryptionLevel::NotSupported),
        _ => Err("\"Encrypt\" must be strict, true, false or DANGER_PLAINTEXT".to_owned()),
    }
}

fn parse_bool(keyword: &str, value: &str) -> Result<bool, String> {
    match &*value.to_ascii_lowercase() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(format!("{keyword:?} must be true or false")),
    }
}

/// Parses `[tcp:]HOST[\INSTANCE][,PORT]`. Without a port it is 1433. An instance needs a port.
fn parse_server(config: &mut Config, server: &str) -> Result<(), String> {
    let address = match server.split_once(':') {
        Some((protocol, rest)) if protocol.eq_ignore_ascii_case("tcp") => rest,
        Some((protocol @ ("np" | "lpc" | "admin"), _)) => {
            return Err(format!(
                "the server's protocol {protocol:?} is not supported; use tcp"
            ));
        }
        _ => server,
    };
    let (host, port) = match address.split_once(',') {
        Some((host, port)) => {
            let port: u16 = port
                .trim()
                .parse()
                .map_err(|_| "the server's port must be between 0 and 65535")?;
            (host, Some(port))
        }
        None => (address, None),
    };
    let host = match host.split_once('\\') {
        Some((host, _)) if port.is_some() => host,
        Some((_, instance)) => {
            return Err(format!(
                "the instance {instance:?} needs its port, as in server=HOST\\{instance},PORT: the broker does not use SQL \
                 Server Browser"
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

/// Splits `keyword=value;…` into pairs. A value can be in quotes, where a quote is doubled, or in braces.
fn split_pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(';') {
            rest = after.trim_start();
            continue;
        }
        let (keyword, after) = rest
            .split_once('=')
            .ok_or("each part must be keyword=value, and semicolons separate the parts")?;
        let keyword = keyword.trim().to_owned();
        let after = after.trim_start();
        let (value, after) = match after.chars().next() {
            Some(quote @ ('\'' | '"')) => split_quoted(&after[1..], quote)
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

/// Returns the text up to the closing quote, and the rest after it. `None`: there is no closing quote.
fn split_quoted(text: &str, quote: char) -> Option<(String, &str)> {
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
    fn string_from_a_portal_is_accepted() {
        let text = "Server=tcp:x.database.windows.net,1433;Initial Catalog=db;Persist Security Info=False;User ID=u;\
                    Password={p;w'\"=};MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;\
                    Connection Timeout=30;";
        let config = parse(text).expect("valid");
        assert_eq!(config.get_addr(), "x.database.windows.net:1433");
        assert_eq!(database(text).as_deref(), Some("db"));
    }

    #[test]
    fn database_can_be_missing() {
        assert_eq!(database("server=h;user id=u;password=database"), None);
    }

    #[test]
    fn spellings_with_spaces_and_quotes_are_accepted() {
        let text = "data source = host\\inst , 1500 ; Multi Subnet Failover=yes; Trust Server Certificate = true; \
                    pwd='it''s; ☂';uid=\"a\"\"b\"";
        let config = parse(text).expect("valid");
        assert_eq!(config.get_addr(), "host:1500");
        assert!(config.get_multi_subnet_failover());
        let pairs = split_pairs(text).expect("valid");
        assert_eq!(pairs[3].1, "it's; ☂");
        assert_eq!(pairs[4].1, "a\"b");
    }

    #[test]
    #[cfg(all(unix, feature = "kerberos"))]
    fn windows_login_needs_no_user_and_no_password() {
        for value in ["SSPI", "true", "yes"] {
            parse(&format!("server=h;Integrated Security={value}")).expect("valid");
        }
        for more in ["user=secret", "password=secret"] {
            let problem = parse(&format!("server=h;{more};Trusted_Connection=yes"));
            let problem = problem.map(|_| ()).expect_err("refused");
            assert!(problem.contains("user and password"), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    #[cfg(not(feature = "kerberos"))]
    fn windows_login_needs_the_feature() {
        let problem = parse("server=h;Integrated Security=SSPI");
        let problem = problem.map(|_| ()).expect_err("refused");
        assert!(problem.contains("--features kerberos"), "{problem}");
    }

    #[test]
    fn errors_name_the_keyword_and_show_no_value() {
        for (text, named) in [
            ("database=secret", "server"),
            ("server=h;pasword=secret", "pasword"),
            ("server=h;password='secret", "password"),
            ("server=h;password='a'secret", "password"),
            ("server=h;secret", "keyword=value"),
            ("server=h\\inst;password=secret", "port"),
            ("server=h;password=secret", "user id"),
            ("server=h,99999;password=secret", "port"),
            ("server=np:h;password=secret", "np"),
            ("server=h;encrypt=secret", "Encrypt"),
            (
                "server=h;TrustServerCertificate=secret",
                "TrustServerCertificate",
            ),
            ("server=h;packet size=secret", "packet size"),
            (
                "server=h;Encrypt=strict;TrustServerCertificate=true",
                "strict",
            ),
        ] {
            let Err(problem) = parse(text) else {
                panic!("{text}")
            };
            assert!(problem.contains(named), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
