//! The files in `generated/` are what the .proto files give.
//!
//! `LEASE_BROKER_WRITE_GENERATED=1 cargo test -p lease-broker-proto` writes them again.

use std::path::Path;
use std::{env, fs};

use prost::Message as _;

const PROTOS: [&str; 2] = [
    "leasebroker/v1/lease_broker.proto",
    "leasebroker/v1/admin.proto",
];
const CODE: &str = "leasebroker.v1.rs";
const DESCRIPTORS: &str = "leasebroker.v1.descriptors.bin";

#[test]
fn generated_files_are_those_of_the_proto_files() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = package.join("generated");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&made).expect("the folder can be created");
    generate(package, &made);

    for name in [CODE, DESCRIPTORS] {
        let made = fs::read(made.join(name)).expect("the file was generated");
        if env::var_os("LEASE_BROKER_WRITE_GENERATED").is_some() {
            fs::write(committed.join(name), &made).expect("the file can be written");
        }
        let committed = fs::read(committed.join(name)).unwrap_or_default();
        assert!(
            made == committed,
            "proto/generated/{name} differs from {PROTOS:?}; write it again: \
             LEASE_BROKER_WRITE_GENERATED=1 cargo test -p lease-broker-proto"
        );
    }
}

/// Generates the code and the descriptors of the API into a folder.
fn generate(package: &Path, folder: &Path) {
    let descriptors = protox::compile(PROTOS, [package]).expect("the .proto files are valid");
    let encoded = descriptors.encode_to_vec();
    fs::write(folder.join(DESCRIPTORS), encoded).expect("the file can be written");
    // Proto maps become BTreeMap. An item has few columns. For these it needs one allocation and no hashing. Its order
    // by name is also needed: the broker's `grpc/messages.rs` relies on it.
    tonic_prost_build::configure()
        .btree_map(".")
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .out_dir(folder)
        .compile_fds(descriptors)
        .expect("the code can be generated");
}
