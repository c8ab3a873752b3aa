//! The flag of a change that only the audit log explains.

use clap::Args;

/// The reason of a change.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Reason, for the audit log of the service, cut to 1,024 UTF-16 units
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) reason: String,
}
