//! Calls of any path, with any bytes.

use prost::bytes::{Buf as _, BufMut as _};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// Sends bytes as the request of a path, such as `/leasebroker.v1.LeaseService/Wake`.
pub(crate) async fn send(
    grpc: &mut Grpc<Channel>,
    path: &str,
    request: Vec<u8>,
) -> Result<Response<Vec<u8>>, Status> {
    grpc.ready().await.expect("the channel is ready");
    let path = path.parse().expect("the path is valid");
    grpc.unary(Request::new(request), path, Bytes).await
}

/// A codec that passes bytes unchanged.
#[derive(Clone, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let length = input.remaining();
        Ok(Some(input.copy_to_bytes(length).to_vec()))
    }
}
