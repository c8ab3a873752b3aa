//! The certificate that a client of the admin port has shown in its handshake.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::access::Access;
use super::identity::Identity;
use super::tls::ServerTls;

/// The certificates of a client, its own first.
pub(crate) struct ShownCertificate {
    chain: Vec<CertificateDer<'static>>,
    tls: Arc<ServerTls>,
}

impl ShownCertificate {
    /// `chain`: the certificates of a connection. `None`: the client has shown none.
    pub(crate) fn new(
        chain: Option<&[CertificateDer<'static>]>,
        tls: Arc<ServerTls>,
    ) -> Option<Self> {
        let chain = chain?.to_vec();
        Some(Self { chain, tls })
    }

    /// Returns the identity that the certificate has now. `None`: it is not valid any more, or no identity fits its names.
    pub(crate) fn identity(&self, access: &Access) -> Option<Arc<Identity>> {
        let state = self.tls.state();
        if !state.accepts(&self.chain) {
            return None;
        }
        let names = state.names(self.chain.first()?).ok()?;
        access.of_certificate(&names).ok()
    }
}
