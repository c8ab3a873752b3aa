//! The result of a check.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::cli::output::Row;

/// The side of the connection that a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum Side {
    Broker,
    Worker,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    Ok,
    /// It works, and somebody should look.
    Warning,
    /// It does not work, or will soon stop.
    Problem,
    /// The check cannot be made here.
    Skipped,
}

/// One line of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finding {
    side: Side,
    pub(super) check: String,
    pub(super) verdict: Verdict,
    detail: String,
}

impl Finding {
    pub(super) fn broker(
        check: impl Into<String>,
        verdict: Verdict,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Side::Broker, check, verdict, detail)
    }

    pub(super) fn worker(
        check: impl Into<String>,
        verdict: Verdict,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Side::Worker, check, verdict, detail)
    }

    fn new(
        side: Side,
        check: impl Into<String>,
        verdict: Verdict,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            side,
            check: check.into(),
            verdict,
            detail: detail.into(),
        }
    }

    pub(super) fn row(&self) -> Row {
        let side = match self.side {
            Side::Broker => "broker",
            Side::Worker => "worker",
        };
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
            Verdict::Skipped => "skipped",
        };
        Row::default()
            .field("side", side)
            .field("check", &*self.check)
            .field("verdict", verdict)
            .field("detail", &*self.detail)
    }
}
