//! The owner of leases: the identity of the caller that claimed them.

use std::sync::Arc;

/// The identity of a caller, as far as lease ids depend on it. The default is a caller of a service without identities.
#[derive(Clone, Debug, Default)]
pub struct LeaseOwner(Option<Arc<Identity>>);

#[derive(Debug)]
struct Identity {
    /// The name, and then the names that the identity had before.
    names: Vec<String>,
    /// True: only this identity can use the ids of leases that it claims.
    is_exclusive: bool,
}

impl LeaseOwner {
    /// Creates the owner with this name, which can use the leases of its former names too. `former`: the oldest first.
    /// `is_exclusive`: only this owner can use the ids of leases that it claims.
    pub fn new(name: &str, former: &[String], is_exclusive: bool) -> Self {
        let names = std::iter::once(name.to_owned()).chain(former.iter().cloned());
        Self(Some(Arc::new(Identity {
            names: names.collect(),
            is_exclusive,
        })))
    }

    /// Returns the name that the ids of new leases are tied to. `None`: they are not tied to an identity.
    pub(super) fn exclusive_name(&self) -> Option<&str> {
        let identity = self.0.as_ref().filter(|identity| identity.is_exclusive)?;
        identity.names.first().map(String::as_str)
    }

    /// Returns the oldest name. It gives the owner request ids of its own, which a new name does not change.
    pub(super) fn oldest_name(&self) -> Option<&str> {
        let names = &self.0.as_ref()?.names;
        names.get(1).or(names.first()).map(String::as_str)
    }

    /// Returns whether only this owner can use the leases that it claims.
    pub(super) fn is_exclusive(&self) -> bool {
        self.exclusive_name().is_some()
    }

    /// Returns all names whose leases this owner can use.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let identity = self.0.iter();
        identity.flat_map(|identity| identity.names.iter().map(String::as_str))
    }
}
