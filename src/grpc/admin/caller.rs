//! The caller of a call for operators: its rights, and its name for the audit.

use std::net::IpAddr;
use std::sync::Arc;

use tonic::Status;

use crate::broker::Actor;
use crate::grpc::caller::{Caller, denied, purge_denied};
use crate::security::{Identity, Rpc};

/// The caller of a call for operators.
#[derive(Clone, Default)]
pub struct AdminCaller {
    /// `None`: the caller may do everything, because the service has no identities, or because it has opened the database itself.
    pub(super) caller: Option<Caller>,
    /// The name of a caller without an identity. Empty: it is not known.
    name: String,
    /// The address of a caller without an identity. `None`: it is not known.
    address: Option<IpAddr>,
}

impl AdminCaller {
    /// A caller with the rights of an identity.
    pub fn of(identity: Arc<Identity>, address: IpAddr) -> Self {
        Self {
            caller: Some(Caller { identity, address }),
            ..Self::default()
        }
    }

    /// A caller of this name that may do everything.
    pub fn named(name: String) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// A caller at this address that may do everything.
    pub fn at(address: IpAddr) -> Self {
        Self {
            address: Some(address),
            ..Self::default()
        }
    }

    /// Returns the address. `None`: it is not known.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let caller = self.caller.as_ref();
        caller.map(|caller| caller.address).or(self.address)
    }

    pub(in crate::grpc) fn new(caller: Option<&Caller>) -> Self {
        Self {
            caller: caller.cloned(),
            ..Self::default()
        }
    }

    /// Returns whether the caller may send the rpc for this queue.
    pub fn may(&self, rpc: Rpc, queue: &str) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.identity.rights.allow(rpc, queue))
    }

    /// Returns whether the caller may delete items of this queue.
    pub fn may_purge(&self, queue: &str) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.identity.rights.allow_purge(queue))
    }

    /// Returns whether the caller may send the rpc for some queue.
    pub fn may_somewhere(&self, rpc: Rpc) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.identity.rights.allow_somewhere(rpc))
    }

    /// Returns the name of the identity. Empty: the service has no identities.
    pub fn name(&self) -> &str {
        let caller = self.caller.as_ref();
        caller.map_or(&self.name, |caller| &caller.identity.name)
    }

    pub(super) fn actor(&self) -> Actor {
        Actor {
            name: self.name().to_owned(),
        }
    }

    /// Checks the role for an rpc on a queue. The check comes before the queue is looked up.
    pub(super) fn check(&self, rpc: Rpc, queue: &str) -> Result<(), Status> {
        match &self.caller {
            Some(caller) if !self.may(rpc, queue) => Err(denied(caller, rpc, Some(queue))),
            _ => Ok(()),
        }
    }

    /// Checks the role for deleting items of a queue. Starting the operation needs a role too.
    pub(super) fn check_purge(&self, queue: &str) -> Result<(), Status> {
        match &self.caller {
            Some(caller) if !self.may_purge(queue) => Err(purge_denied(caller, queue)),
            _ => Ok(()),
        }
    }

    /// Checks the role for an rpc on any queue.
    pub(super) fn check_somewhere(&self, rpc: Rpc) -> Result<(), Status> {
        match &self.caller {
            Some(caller) if !self.may_somewhere(rpc) => Err(denied(caller, rpc, None)),
            _ => Ok(()),
        }
    }
}
