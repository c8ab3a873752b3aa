//! The sections `server.tls` and `auth`.

use lease_broker::config::{ClientCertificates, LeaseScope, Role};

use crate::configuration::test_sources::{from_file, location};

const TLS: &str = "
[server.tls]
certificate = 'a'
key = 'b'
client_authorities = 'c'
";

fn with_tls(auth: &str) -> &'static str {
    Box::leak(format!("{TLS}{auth}").into_boxed_str())
}

#[test]
fn sections_are_absent_by_default() {
    let config = from_file("").expect("valid");
    assert!(config.server.tls.is_none() && config.auth.is_none());
}

#[test]
fn clients_have_optional_certificates_with_an_authority() {
    let certificates =
        |text| from_file(text).map(|config| config.server.tls.expect("TLS").client_certificates());
    assert_eq!(certificates(TLS), Ok(ClientCertificates::Optional));
    let without = "[server.tls]\ncertificate = 'a'\nkey = 'b'";
    assert_eq!(certificates(without), Ok(ClientCertificates::Off));
    let required = with_tls("client_certificates = 'required'");
    assert_eq!(certificates(required), Ok(ClientCertificates::Required));
    for text in [
        with_tls("client_certificates = 'off'"),
        "[server.tls]\ncertificate = 'a'\nkey = 'b'\nclient_certificates = 'required'",
    ] {
        let error = from_file(text).expect_err(text);
        assert_eq!(error.key, "server.tls.client_certificates", "{error}");
    }
}

#[test]
fn identity_has_roles_and_the_default_scope() {
    let config = from_file(with_tls(
        "[[auth.identities]]\nname = 'a'\nspiffe = 'spiffe://a/*'\nroles = { worker = ['x*'] }",
    ));
    let auth = config.expect("valid").auth.expect("a section");
    assert_eq!(auth.lease_scope, LeaseScope::Identity);
    assert_eq!(auth.identities[0].roles[&Role::Worker], ["x*"]);
    assert!(auth.anonymous.is_empty());
}

#[test]
fn identities_that_cannot_be_used_are_refused() {
    let one = "[[auth.identities]]\nname = 'a'\n";
    for (text, key, reason) in [
        (
            "[auth]\nanonymous = ['boss']".to_owned(),
            "auth.anonymous[0]",
            "unknown variant",
        ),
        (one.to_owned(), "auth.identities[0].name", "exactly one"),
        (
            format!("{one}dns = 'x'\ntoken = 'y'"),
            "auth.identities[0].name",
            "exactly one",
        ),
        (
            format!("{one}token = 'y'"),
            "auth.identities[0].token",
            "auth.tokens_file",
        ),
        (
            format!("{one}jwt_subject = 'y'"),
            "auth.identities[0].jwt_subject",
            "[auth.jwt]",
        ),
        (
            format!(
                "[auth]\ntokens_file = 't'\n{one}token = 'lb_{}'",
                "x".repeat(43)
            ),
            "auth.identities[0].token",
            "is a token itself",
        ),
        (format!("{one}dns = ''"), "auth.identities[0].dns", "empty"),
        (
            format!("{one}spiffe = 'prod/a'"),
            "auth.identities[0].spiffe",
            "spiffe://",
        ),
        (
            format!("{one}spiffe = 'spiffe://*/a'"),
            "auth.identities[0].spiffe",
            "only the path",
        ),
        (
            format!("{one}dns = 'x'\njwt_claims = {{ a = 'b' }}"),
            "auth.identities[0].jwt_claims",
            "jwt_subject",
        ),
        (
            format!("{one}dns = 'x'\nroles = {{ worker = [''] }}"),
            "auth.identities[0].roles.worker",
            "empty",
        ),
        (
            format!("{one}dns = 'x'\nlimits = {{ calls_per_second = 0 }}"),
            "auth.identities[0].limits.calls_per_second",
            "between",
        ),
        (
            format!("{one}dns = 'x'\n{one}dns = 'y'"),
            "auth.identities[1].name",
            "another",
        ),
        (
            format!("{one}dns = 'x'\n[[auth.identities]]\nname = 'b'\ndns = 'x'"),
            "auth.identities[1].dns",
            "another",
        ),
        (
            format!("{one}dns = 'x'\n[[auth.identities]]\nname = 'b'\nformerly = ['a']\ndns = 'y'"),
            "auth.identities[1].name",
            "another",
        ),
    ] {
        let error = from_file(with_tls(&text)).expect_err(&text);
        assert_eq!(error.key, key, "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
    let without_tls = from_file("[[auth.identities]]\nname = 'a'\ndns = 'x'");
    let error = without_tls.expect_err("no certificates");
    assert!(error.reason.contains("client_authorities"), "{error}");
}

#[test]
fn error_of_an_identity_has_its_line() {
    for (roles, key, line) in [
        ("{ wroker = ['a'] }", "auth.identities[1].roles", 8),
        ("{ worker = [''] }", "auth.identities[1].roles.worker", 8),
    ] {
        let text = format!(
            "[auth]\n[[auth.identities]]\nname = 'a'\ndns = 'x'\n[[auth.identities]]\nname = 'b'\ndns = 'y'\nroles = {roles}"
        );
        let error = from_file(with_tls(&text)).expect_err(&text);
        assert_eq!(error.key, key, "{error}");
        let before = with_tls("").lines().count();
        let line = format!("given.toml:{}", before + line);
        assert_eq!(location(&error), line, "{error}");
    }
}

#[test]
fn keys_come_from_one_place_that_nobody_can_change() {
    let jwt = |more: &str| {
        let text = format!("[auth.jwt]\nissuer = 'i'\naudience = 'a'\n{more}");
        from_file(Box::leak(text.into_boxed_str()))
    };
    jwt("jwks_url = 'https://issuer.example/keys'").expect("valid");
    jwt("jwks_url = 'http://127.0.0.1:8080/keys'").expect("valid");
    for (more, key) in [
        ("", "auth.jwt.jwks_file"),
        (
            "jwks_file = 'f'\njwks_url = 'https://i/'",
            "auth.jwt.jwks_file",
        ),
        (
            "jwks_url = 'http://issuer.example/keys'",
            "auth.jwt.jwks_url",
        ),
        (
            "jwks_file = 'f'\njwks_ca_file = 'ca'",
            "auth.jwt.jwks_ca_file",
        ),
    ] {
        assert_eq!(jwt(more).expect_err(more).key, key);
    }
}

#[test]
fn trust_domains_and_revocation_lists_need_their_authorities() {
    let tls = |more: &str| {
        let text = format!("[server.tls]\ncertificate = 'a'\nkey = 'b'\n{more}");
        from_file(Box::leak(text.into_boxed_str()))
    };
    let with_domain = tls("trust_domains = { 'prod.example' = 'c' }").expect("valid");
    let certificates = with_domain.server.tls.expect("TLS").client_certificates();
    assert_eq!(certificates, ClientCertificates::Optional);
    for (more, key) in [
        (
            "client_revocation_lists = 'd'",
            "server.tls.client_revocation_lists",
        ),
        (
            "trust_domains = { 'Prod' = 'c' }",
            "server.tls.trust_domains.\"Prod\"",
        ),
        (
            "trust_domains = { 'a' = 'c' }\nclient_certificates = 'off'",
            "server.tls.client_certificates",
        ),
    ] {
        assert_eq!(tls(more).expect_err(more).key, key);
    }
}
