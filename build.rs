//! Compiles the API's protobuf with protox, so that no protoc is needed, and keeps its descriptor for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    const PROTO: &str = "leasebroker/v1/lease_broker.proto";

    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    let file = PathBuf::from(env::var("OUT_DIR")?).join("lease_broker.descriptor.bin");
    fs::write(file, descriptors.encode_to_vec())?;
    // An item has few columns: an ordered map of them is one allocation, and nothing is hashed.
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
