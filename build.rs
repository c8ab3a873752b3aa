//! Build script: passes the compiler's version to the program, for its version report.

use std::{env, error::Error, process::Command};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = Command::new(env::var("RUSTC")?).arg("--version").output()?;
    let version = String::from_utf8_lossy(&compiler.stdout);
    println!("cargo::rustc-env=LEASE_BROKER_RUSTC={}", version.trim());
    Ok(())
}
