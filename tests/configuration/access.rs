//! The sections `server.tls` and `auth`.

use lease_broker::config::{ClientCertificates, LeaseScope, Role};

use crate::configuration::test_sources::from_file;

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
