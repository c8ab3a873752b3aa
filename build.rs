//! Build script: generates the API's Rust code from `proto/`, and writes the descriptor that the reflection service
//! sends. Also passes the compiler's version to the program, for its version report.
//!
//! It compiles the .proto file with protox, so that a build needs no installed protoc.

use std::{env, error::Error, fs, path::PathBuf, process::Command};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    const PROTO: &str = "leasebroker/v1/lease_broker.proto";

    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    let file = PathBuf::from(env::var("OUT_DIR")?).join("lease_broker.descriptor.bin");
    fs::write(file, descriptors.encode_to_vec())?;
    // Proto maps become BTreeMap. An item has few columns. For these it needs one allocation and no hashing. Its order
    // by name is also needed: `grpc/messages.rs` relies on it.
    tonic_prost_build::configure()
        .btree_map(".")
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        .compile_fds(descriptors)?;
    let compiler = Command::new(env::var("RUSTC")?).arg("--version").output()?;
    let version = String::from_utf8_lossy(&compiler.stdout);
    println!("cargo::rustc-env=LEASE_BROKER_RUSTC={}", version.trim());
    Ok(())
}
