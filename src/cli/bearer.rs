//! The token of a command, which each call carries.

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A connection on which each call carries the token of the command.
pub type AuthorizedChannel = InterceptedService<Channel, Bearer>;

/// Adds the token to each call.
#[derive(Clone, Default)]
pub struct Bearer(pub(super) Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

impl Bearer {
    /// Lets each call on a connection carry the token.
    pub fn authorize(&self, channel: Channel) -> AuthorizedChannel {
        InterceptedService::new(channel, self.clone())
    }
}
