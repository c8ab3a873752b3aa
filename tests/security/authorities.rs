//! Which authorities count for which certificates of clients, and which certificates they have revoked.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tonic::Code;
use tonic::transport::Channel;

use crate::security::fixture::Files;
use crate::security::handshakes::HalfHandshake;
use crate::security::new_files::Broker;
use crate::support::certificates::{Authority, Signed};
use crate::support::raw_connection::blocking;
use crate::support::timeout::wait_until;

const AUTH: &str = "
[[auth.identities]]
name = 'fleet'
spiffe = 'spiffe://test/fleet'
roles = { worker = ['work'] }
[[auth.identities]]
name = 'other fleet'
spiffe = 'spiffe://other/fleet'
roles = { worker = ['work'] }
[[auth.identities]]
name = 'by name'
dns = 'fleet.example'
roles = { worker = ['work'] }
";

/// Returns the settings of a broker with one more setting of TLS.
fn settings(files: &Files, more: &str) -> String {
    let settings = files.settings(AUTH);
    settings.replacen("[auth]", &format!("{more}\n[auth]"), 1)
}

/// Starts a broker with this text as its revocation lists.
fn with_lists(files: Files, lists: &str) -> Broker {
    files.write("clients.crl", lists);
    let path = files.file("clients.crl");
    let setting = format!("client_revocation_lists = \"{}\"", path.display());
    let settings = settings(&files, &setting);
    Broker::with_settings(files, &settings)
}

/// Revokes the certificate of a connected client. Expects that this client alone is refused.
async fn expect_revocation(broker: &Broker, going: &Channel, goes: &Signed, stays: &Signed) {
    let files = &broker.files;
    files.write("clients.crl", &files.authority.revoke(&[goes], 2100));
    broker.process.signal("HUP");
    // The client connects again when its connection has ended, and is refused.
    wait_until("the revoked certificate is refused", async || {
        Broker::claim(going, None).await != Code::Ok
    })
    .await;
    assert!(!broker.serves(goes).await);
    assert!(broker.serves(stays).await);
}

#[tokio::test]
async fn revoked_certificate_loses_its_connection() {
    let files = Files::new();
    let [stays, goes] = [0, 1].map(|_| files.authority.sign(&["spiffe://test/fleet"]));
    let nobody = files.authority.revoke(&[], 2100);
    let broker = with_lists(files, &nobody);
    let files = &broker.files;
    assert!(broker.serves(&stays).await);
    let going = broker.connect(&files.authority, Some(&goes)).await;
    let going = going.expect("connected");
    assert_eq!(Broker::claim(&going, None).await, Code::Ok);

    expect_revocation(&broker, &going, &goes, &stays).await;

    // A list that cannot be read changes nothing.
    files.write("clients.crl", "no list");
    broker.process.signal("HUP");
    wait_until("the unusable list is reported", async || {
        let log = broker.process.log();
        log.contains("server.tls.client_revocation_lists") && log.contains("stays in use")
    })
    .await;
    assert!(!broker.serves(&goes).await);
    assert!(broker.serves(&stays).await);
}

#[tokio::test]
async fn certificate_that_has_ended_loses_its_connection() {
    let files = Files::new();
    let settings = files.settings(AUTH);
    let broker = Broker::with_settings(files, &settings);
    let authority = &broker.files.authority;
    let mut open = None;
    // On a busy machine the first certificate can end before it is used.
    for seconds in [5, 20, 60] {
        let end = time::OffsetDateTime::now_utc() + time::Duration::seconds(seconds);
        let own = authority.sign_until(&["spiffe://test/fleet"], end);
        if let Some(channel) = broker.connect(authority, Some(&own)).await
            && Broker::claim(&channel, None).await == Code::Ok
        {
            open = Some(channel);
            break;
        }
    }
    let open = open.expect("served");
    let others = [String::new(), Authority::named("Another authority").pem()];
    let mut others = others.iter().cycle();
    wait_until("the connection has ended", async || {
        // Certificates are checked at each change, so that the test need not wait for the interval. The broker can read a file that is
        // half written, and then changes nothing.
        let authorities = authority.pem() + others.next().expect("a cycle");
        broker.files.write("clients.crt", &authorities);
        broker.process.signal("HUP");
        let is_refused = Broker::claim(&open, None).await != Code::Ok;
        is_refused && broker.process.log().contains("tls.ended")
    })
    .await;
}

#[tokio::test]
async fn authority_without_a_list_is_refused() {
    let files = Files::new();
    let other = Authority::named("Other authority");
    files.write("clients.crt", &(files.authority.pem() + &other.pem()));
    let [listed, unlisted] =
        [&files.authority, &other].map(|authority| authority.sign(&["spiffe://test/fleet"]));
    let lists = files.authority.revoke(&[], 2100);
    let broker = with_lists(files, &lists);
    assert!(broker.serves(&listed).await);
    assert!(!broker.serves(&unlisted).await);
}

#[tokio::test]
async fn list_past_its_time_stays_in_use() {
    let files = Files::new();
    let [stays, goes] = [0, 1].map(|_| files.authority.sign(&["spiffe://test/fleet"]));
    let lists = files.authority.revoke(&[&goes], 2021);
    let broker = with_lists(files, &lists);
    assert!(broker.serves(&stays).await);
    assert!(!broker.serves(&goes).await);
    let log = broker.process.log();
    assert_eq!(
        log.matches("a revocation list is past its time").count(),
        1,
        "{log}"
    );
}

#[tokio::test]
async fn list_added_after_an_older_one_counts() {
    for [end_of_the_older, end_of_the_newer] in [[2100, 2100], [2021, 2100], [2100, 2021]] {
        let files = Files::new();
        let [stays, goes] = [0, 1].map(|_| files.authority.sign(&["spiffe://test/fleet"]));
        let older = files.authority.revoke(&[], end_of_the_older);
        let newer = files.authority.revoke(&[&goes], end_of_the_newer);
        let broker = with_lists(files, &(older + &newer));
        assert!(broker.serves(&stays).await);
        assert!(!broker.serves(&goes).await, "{end_of_the_newer}");
        let log = broker.process.log();
        assert!(!log.contains("past its time"), "another list is not: {log}");
    }
}

#[tokio::test]
async fn renewed_authority_keeps_the_clients_of_both_keys() {
    for is_old_first in [true, false] {
        let files = Files::new();
        // Both have the same name.
        let renewed = Authority::new();
        files.write("clients.crt", &(files.authority.pem() + &renewed.pem()));
        let authorities = [&files.authority, &renewed];
        let [old_stays, new_stays] =
            authorities.map(|authority| authority.sign(&["spiffe://test/fleet"]));
        let [old_goes, new_goes] =
            authorities.map(|authority| authority.sign(&["spiffe://test/fleet"]));
        let old = files.authority.revoke(&[&old_goes], 2100);
        let new = renewed.revoke(&[&new_goes], 2100);
        let lists = if is_old_first { old + &new } else { new + &old };
        let broker = with_lists(files, &lists);
        for (own, is_served) in [
            (&old_stays, true),
            (&new_stays, true),
            (&old_goes, false),
            (&new_goes, false),
        ] {
            assert_eq!(broker.serves(own).await, is_served, "{is_old_first}");
        }
    }
}

#[tokio::test]
async fn trust_domain_has_its_own_authorities() {
    let files = Files::new();
    let domain = Authority::named("Authority of a trust domain");
    files.write("test.crt", &domain.pem());
    let path = files.file("test.crt");
    let setting = format!("trust_domains = {{ test = \"{}\" }}", path.display());
    let settings = settings(&files, &setting);
    let broker = Broker::with_settings(files, &settings);
    let clients = &broker.files.authority;
    for (authority, names, is_served) in [
        (&domain, &["spiffe://test/fleet"][..], true),
        // Authorities of other certificates cannot issue a SPIFFE id, nor can those of a domain issue that of another.
        (clients, &["spiffe://test/fleet"], false),
        (clients, &["spiffe://other/fleet"], false),
        (&domain, &["spiffe://other/fleet"], false),
        // Nor can those of a domain give other names.
        (clients, &["fleet.example"], true),
        (&domain, &["fleet.example"], false),
        (&domain, &["spiffe://test/unknown", "fleet.example"], false),
    ] {
        let own = authority.sign(names);
        assert_eq!(broker.serves(&own).await, is_served, "{names:?}");
    }
}

#[tokio::test]
async fn key_that_every_user_can_read_is_reported() {
    for (mode, is_reported) in [(0o644, true), (0o640, false)] {
        let files = Files::new();
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(files.file("tls.key"), permissions).expect("set");
        let settings = files.settings(AUTH);
        let broker = Broker::with_settings(files, &settings);
        let log = broker.process.log();
        let reported = log.contains("every user of this host can read the private key");
        assert_eq!(reported, is_reported, "{mode:o}: {log}");
        if !is_reported {
            let permissions = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(broker.files.file("tls.key"), permissions).expect("set");
            broker.process.signal("HUP");
            wait_until("the new mode is reported", async || {
                broker.process.log().contains("mode=\"0644\"")
            })
            .await;
        }
    }
}

#[tokio::test]
async fn authority_that_has_ended_is_reported() {
    let files = Files::new();
    let ended = Authority::ended();
    files.write("clients.crt", &(files.authority.pem() + &ended.pem()));
    let own = ended.sign(&["spiffe://test/fleet"]);
    let settings = files.settings(AUTH);
    let broker = Broker::with_settings(files, &settings);
    assert!(broker.serves(&own).await);
    let log = broker.process.log();
    let line = "number=2 reason=\"the certificate expired at 2020-01-01T00:00:00Z\"";
    assert!(log.contains(line), "{log}");
}

#[tokio::test]
async fn revocation_counts_beside_an_unusable_certificate() {
    let files = Files::new();
    let [stays, goes] = [0, 1].map(|_| files.authority.sign(&["spiffe://test/fleet"]));
    let nobody = files.authority.revoke(&[], 2100);
    let broker = with_lists(files, &nobody);
    let files = &broker.files;
    let going = broker.connect(&files.authority, Some(&goes)).await;
    let going = going.expect("connected");
    assert_eq!(Broker::claim(&going, None).await, Code::Ok);
    let expired = files.authority.sign(&["localhost", "expired"]);
    expired.write(files.path(), "tls");
    broker.process.signal("HUP");
    wait_until("the expired certificate is not used", async || {
        broker.process.log().contains("expired at 2020-01-01")
    })
    .await;

    expect_revocation(&broker, &going, &goes, &stays).await;
    // The answer to the SIGHUP says that the certificate is not used.
    wait_until("the line names it", async || {
        let log = broker.process.log();
        log.contains("not_in_use=\"server.tls.certificate: ")
    })
    .await;
}

#[tokio::test]
async fn certificate_is_renewed_beside_an_unusable_list() {
    let files = Files::new();
    let own = files.authority.sign(&["spiffe://test/fleet"]);
    let nobody = files.authority.revoke(&[], 2100);
    let broker = with_lists(files, &nobody);
    broker.files.write("clients.crl", "<html>503</html>");
    let renewed = Authority::named("Renewed authority");
    let pair = renewed.sign(&["localhost"]);
    pair.write(broker.files.path(), "tls");
    broker.process.signal("HUP");
    wait_until("the new certificate is shown", async || {
        broker.connect(&renewed, Some(&own)).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn trust_domain_loses_an_authority_beside_an_unusable_one() {
    let files = Files::new();
    let [stays, goes, other] = ["Stays", "Goes", "Other"].map(Authority::named);
    files.write("test.crt", &(stays.pem() + &goes.pem()));
    files.write("other.crt", &other.pem());
    let [test, partner] = ["test.crt", "other.crt"].map(|name| files.file(name));
    let setting = format!(
        "trust_domains = {{ test = '{}', other = '{}' }}",
        test.display(),
        partner.display()
    );
    let settings = settings(&files, &setting);
    let broker = Broker::with_settings(files, &settings);
    let [stays_own, goes_own] =
        [&stays, &goes].map(|authority| authority.sign(&["spiffe://test/fleet"]));
    assert!(broker.serves(&goes_own).await);
    broker.files.write("other.crt", "<html>404</html>");
    broker.files.write("test.crt", &stays.pem());
    broker.process.signal("HUP");
    wait_until("the removed authority is refused", async || {
        !broker.serves(&goes_own).await
    })
    .await;
    assert!(broker.serves(&stays_own).await);
}

#[tokio::test]
async fn certificate_revoked_during_its_handshake_is_not_served() {
    let files = Files::new();
    let goes = files.authority.sign(&["spiffe://test/fleet"]);
    let nobody = files.authority.revoke(&[], 2100);
    let broker = with_lists(files, &nobody);
    let files = &broker.files;
    let (address, authority) = (broker.process.address, files.authority.pem());
    let own = (goes.certificate.clone(), goes.key.clone());
    // The broker has chosen its lists when it has answered the first message.
    let handshake = blocking(move || HalfHandshake::begin(address, &authority, &own)).await;
    files.write("clients.crl", &files.authority.revoke(&[&goes], 2100));
    broker.process.signal("HUP");
    wait_until("the list is read", async || !broker.serves(&goes).await).await;
    let ended = tokio::spawn(blocking(move || handshake.finish()));
    wait_until("the connection is ended", async || {
        broker.process.log().contains("tls.ended")
    })
    .await;
    let ended = ended.await.expect("no panic");
    assert!(ended < Duration::from_secs(10), "{ended:?}");
}
