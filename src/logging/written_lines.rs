//! Lines in memory, for tests of the log.

use std::io;
use std::sync::{Arc, Mutex};

/// Keeps the lines that are written to it.
#[derive(Clone, Default)]
pub(super) struct WrittenLines(Arc<Mutex<Vec<u8>>>);

impl WrittenLines {
    /// Returns the lines.
    pub(super) fn text(&self) -> String {
        let bytes = self.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    /// Returns a maker of writers, as a layer needs it.
    pub(super) fn writers(&self) -> impl Fn() -> Self + Send + Sync + use<> {
        let lines = self.clone();
        move || lines.clone()
    }
}

impl io::Write for WrittenLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
