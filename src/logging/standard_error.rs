//! Standard error as the place of the log. A full disk behind it fails no write: the lines are counted, and when one can be written
//! again, the log tells how many are missing.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::folding::OWN_TARGET;

/// Each write is a line. `W`: standard error.
pub(super) struct StandardError<W = io::Stderr> {
    out: W,
    /// The lines that could not be written.
    lost: Arc<AtomicU64>,
    /// Their number when a line was written last.
    reported: u64,
}

impl Default for StandardError {
    fn default() -> Self {
        Self::new(io::stderr())
    }
}

impl<W> StandardError<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            lost: Arc::default(),
            reported: 0,
        }
    }

    /// Returns the number of lines that could not be written, which increases.
    pub(super) fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }
}

impl<W: Write> Write for StandardError<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.out.write_all(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Ok(line.len());
        }
        let lost = self.lost.load(Ordering::Relaxed);
        let lines = lost - std::mem::replace(&mut self.reported, lost);
        if lines > 0 {
            tracing::warn!(target: OWN_TARGET, lines, "log lines lost: standard error could not be written");
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let mut space = [0; 8];
        let mut full = StandardError::new(space.as_mut_slice());
        let lost = full.lost();
        full.write_all(b"a line\n").expect("taken");
        assert_eq!(lost.load(Ordering::Relaxed), 0);
        full.write_all(b"a line\n").expect("taken");
        full.write_all(b"a line\n").expect("taken");
        assert_eq!(lost.load(Ordering::Relaxed), 2);
    }
}
