//! Splits the output of a command into lines, and writes lines to standard error.

use std::io::{self, Write as _};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line. A longer one is split, so that a command without line feeds cannot fill the memory.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Calls a function with each line, without its line feed, until the end of the stream.
pub(super) async fn for_each_line(
    stream: Option<impl AsyncRead + Unpin>,
    mut act: impl FnMut(&str),
) -> io::Result<()> {
    let Some(mut stream) = stream else {
        return Ok(());
    };
    let (mut buffer, mut line) = (vec![0; 8_192], Vec::new());
    loop {
        let count = stream.read(&mut buffer).await?;
        for byte in &buffer[..count] {
            if *byte == b'\n' || line.len() == MAX_LINE_BYTES {
                act(&String::from_utf8_lossy(&line));
                line.clear();
            }
            if *byte != b'\n' {
                line.push(*byte);
            }
        }
        if count == 0 {
            if !line.is_empty() {
                act(&String::from_utf8_lossy(&line));
            }
            return Ok(());
        }
    }
}

/// Writes a line to standard error. Ignores errors: its reader may have ended, and the work goes on.
pub(super) fn write_error_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
