//! The result of a check.

use crate::cli::output::Row;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    side: &'static str,
    check: String,
    pub(super) verdict: Verdict,
    detail: String,
}

impl Finding {
    pub(super) fn broker(
        check: impl Into<String>,
        verdict: Verdict,
        detail: impl Into<String>,
    ) -> Self {
        Self::new("broker", check, verdict, detail)
    }

    pub(super) fn worker(
        check: impl Into<String>,
        verdict: Verdict,
        detail: impl Into<String>,
    ) -> Self {
        Self::new("worker", check, verdict, detail)
    }

    fn new(
        side: &'static str,
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
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
            Verdict::Skipped => "skipped",
        };
        Row::default()
            .field("side", self.side)
            .field("check", &*self.check)
            .field("verdict", verdict)
            .field("detail", &*self.detail)
    }
}
