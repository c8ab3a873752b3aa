//! The secrets that sign lease ids: reading them again, and replacing them.

use std::time::Duration;

use lease_broker_model::lease_id::{
    self, InvalidLeaseId, LeaseId, LeaseOrigin, LeaseOwner, LeaseRef,
};
use lease_broker_store::Store;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR};

fn sign(store: &dyn Store, lease: &LeaseRef) -> String {
    let origin = LeaseOrigin::new(0, HOUR, None);
    let owner = LeaseOwner::default();
    let id = lease_id::encode(store.signing_secrets(), "item", &owner, lease, &origin);
    id.expect("an id")
}

fn read(store: &dyn Store, id: &str) -> Result<LeaseId, InvalidLeaseId> {
    let owner = LeaseOwner::default();
    lease_id::decode(store.signing_secrets(), "item", &owner, id)
}

pub(crate) async fn new_secret_waits_until_brokers_know_it<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let (store, lease) = (&*fixture.store, fixture.one().await.lease);
    let old = sign(store, &lease);
    let number = store.rotate_secrets(HOUR).await.expect("rotated");
    assert_eq!(number, 1);
    assert!(!store.signing_secrets().accepts(1));
    store.read_secrets().await.expect("read");
    assert!(store.signing_secrets().accepts(1));
    // It is too young to sign.
    assert_eq!(sign(store, &lease), old);
    assert_eq!(read(store, &old).expect("valid").lease, lease);
    assert_eq!(store.rotate_secrets(HOUR).await, Ok(2));
}

pub(crate) async fn rotation_without_delay_ends_old_ids<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let (store, lease) = (&*fixture.store, fixture.one().await.lease);
    let old = sign(store, &lease);
    let number = store.rotate_secrets(Duration::ZERO).await;
    assert_eq!(number, Ok(1));
    let other = fixture.another().await;
    let new = sign(&*other.store, &lease);
    assert_eq!(
        read(&*other.store, &old),
        Err(InvalidLeaseId::UnknownSecret(0))
    );
    // The first store has not read the secrets again.
    assert_eq!(read(store, &new), Err(InvalidLeaseId::UnknownSecret(1)));
    store.read_secrets().await.expect("read");
    assert_eq!(read(store, &new).expect("valid").lease, lease);
    assert_eq!(read(store, &old), Err(InvalidLeaseId::UnknownSecret(0)));
    // Secret 1 retires now and is deleted by the next rotation. Its number is free then. Secret 0 stays.
    assert_eq!(store.rotate_secrets(Duration::ZERO).await, Ok(2));
    assert_eq!(store.rotate_secrets(Duration::ZERO).await, Ok(1));
    let third = fixture.another().await;
    assert!(third.store.signing_secrets().accepts(1));
    assert!(!third.store.signing_secrets().accepts(0));
}
