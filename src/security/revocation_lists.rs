//! Lists of revoked certificates (CRLs), and the selections of them with which a certificate is checked.
//!
//! rustls uses the first list of an authority's name and part, and no other. But a file can have several of them: a newer list
//! was added to an older one, or the authority was renewed, so that its old and its new key each have a list. Only the newest lists
//! of a key count. A certificate is checked with each selection that has one list of each name and part.

use std::collections::HashMap;

use rustls::pki_types::CertificateRevocationListDer;
use webpki::{CertRevocationList, OwnedCertRevocationList};

use super::list_age::ListAge;
use super::pem;

/// The largest number of selections. A certificate is checked with each of them.
const MAX_SELECTIONS: usize = 16;

type Der = CertificateRevocationListDer<'static>;

/// The lists of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RevocationLists {
    selections: Vec<Vec<Der>>,
}

impl RevocationLists {
    /// Reads the lists of a PEM file.
    ///
    /// # Errors
    /// The reason why the file cannot be used, with the number of the list.
    pub(super) fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut groups: Vec<(CertRevocationList<'static>, Vec<Der>)> = Vec::new();
        for (index, der) in pem::revocation_lists(pem)?.into_iter().enumerate() {
            let list = OwnedCertRevocationList::from_der(&der);
            let list = list.map_err(|error| {
                format!("revocation list {} cannot be used: {error}", index + 1)
            })?;
            let list = CertRevocationList::from(list);
            let is_same = |of: &CertRevocationList<'_>| {
                of.issuer() == list.issuer()
                    && of.issuing_distribution_point() == list.issuing_distribution_point()
            };
            match groups.iter_mut().find(|(first, _)| is_same(first)) {
                Some((_, lists)) => lists.push(der),
                None => groups.push((list, vec![der])),
            }
        }
        let mut selections = vec![Vec::new()];
        for (_, mut lists) in groups {
            remove_replaced(&mut lists);
            let with_each = |selection: &Vec<Der>| {
                let with = |list: &Der| [&selection[..], std::slice::from_ref(list)].concat();
                lists.iter().map(with).collect::<Vec<_>>()
            };
            selections = selections.iter().flat_map(with_each).collect();
            if selections.len() > MAX_SELECTIONS {
                return Err(format!(
                    "authorities have several lists each, which makes more than {MAX_SELECTIONS} combinations: remove the lists \
                     that newer ones replace"
                ));
            }
        }
        Ok(Self { selections })
    }

    /// Returns the selections. Each has one list of every authority's name and part.
    pub(super) fn selections(&self) -> &[Vec<Der>] {
        &self.selections
    }
}

/// Removes the lists that a newer one of the same key replaces. Those that do not name their key stay.
fn remove_replaced(lists: &mut Vec<Der>) {
    let all = lists.clone();
    let mut newest: HashMap<&[u8], String> = HashMap::new();
    for ListAge { key, time } in all.iter().filter_map(|list| ListAge::of(list)) {
        let newest = newest.entry(key).or_default();
        if time > *newest {
            *newest = time;
        }
    }
    lists.retain(|list| ListAge::of(list).is_none_or(|age| newest[age.key] == age.time));
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
        KeyIdMethod, KeyPair, SerialNumber, date_time_ymd,
    };

    use super::*;

    /// Signs a list of a new authority with this name.
    fn list(name: &str) -> String {
        list_of(&authority(name), 2020)
    }

    fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        CertifiedIssuer::self_signed(params, key).expect("an authority")
    }

    /// Signs a list at the start of this year.
    fn list_of(authority: &CertifiedIssuer<'_, KeyPair>, year: i32) -> String {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(year, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(authority).expect("a list");
        list.pem().expect("PEM")
    }

    fn parse(lists: &[&str]) -> Result<Vec<usize>, String> {
        let parsed = RevocationLists::parse(lists.concat().as_bytes())?;
        Ok(parsed.selections.iter().map(Vec::len).collect())
    }

    #[test]
    fn selection_has_one_list_of_each_authority() {
        let [a, b] = ["a", "b"].map(list);
        assert_eq!(parse(&[&a, &b]), Ok(vec![2]));
        assert_eq!(parse(&[&a, &list("a"), &b]), Ok(vec![2, 2]));
        let many = vec![&*a; MAX_SELECTIONS];
        assert_eq!(parse(&many), Ok(vec![1; MAX_SELECTIONS]));
        let refused = parse(&[&many[..], &[&*a]].concat()).expect_err("too many");
        assert!(refused.contains("remove the lists"), "{refused}");
    }

    #[test]
    fn only_the_newest_list_of_each_key_counts() {
        // The old and the new key of one name. Later years are written in another form.
        let keys = ["a", "a"].map(authority);
        let every_year = (2030..2060).flat_map(|year| keys.iter().map(move |key| (key, year)));
        let lists: Vec<String> = every_year.map(|(key, year)| list_of(key, year)).collect();
        let [old, new] = [0, 1].map(|key| lists[lists.len() - 2 + key].clone());
        let newest = RevocationLists::parse((old + &new).as_bytes()).expect("two lists");
        let reversed: String = lists.iter().rev().cloned().collect();
        for (pem, order) in [(lists.concat(), [0, 1]), (reversed, [1, 0])] {
            let parsed = RevocationLists::parse(pem.as_bytes()).expect("many lists");
            let expected = order.map(|index| newest.selections[index].clone());
            assert_eq!(parsed.selections, expected);
        }
    }

    #[test]
    fn unusable_list_is_named_by_its_number() {
        let wrong = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
        let refused = parse(&[&list("a"), wrong]).expect_err("no list");
        assert!(
            refused.starts_with("revocation list 2 cannot be used: "),
            "{refused}"
        );
    }
}
