//! A log in memory, for tests of log lines.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

#[derive(Clone, Default)]
pub(super) struct MemoryLog(Arc<Mutex<Vec<u8>>>);

impl MemoryLog {
    /// Collects the lines that this thread logs while the guard lives.
    pub(super) fn collect(&self) -> DefaultGuard {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("no panic").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(str::to_owned).collect()
    }
}

impl io::Write for MemoryLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
