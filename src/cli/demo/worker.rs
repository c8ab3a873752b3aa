//! stub
use crate::cli::Failure;
/// Worker
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DemoWorker {}
impl DemoWorker {
    pub(in crate::cli) async fn run(self) -> Result<(), Failure> {
        Ok(())
    }
}
