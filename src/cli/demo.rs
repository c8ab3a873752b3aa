//! stub
pub(super) mod worker;
use super::Failure;
/// Demo
#[derive(Debug, clap::Args)]
pub(super) struct Demo {}
impl Demo {
    pub(super) async fn run(self) -> Result<(), Failure> {
        Ok(())
    }
}
