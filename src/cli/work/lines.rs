//! Splits the output of a command into lines.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio_util::sync::CancellationToken;

/// The longest line. A longer one is split, so that a command without line feeds cannot fill the memory.
const MAX_LINE_BYTES: usize = 1 << 20;
/// The largest pipe of Linux. More cannot be left in it after the end of the command.
const MAX_PIPE_BYTES: usize = 1 << 20;

/// The lines of a stream.
pub(super) struct Lines<'a, R> {
    stream: BufReader<R>,
    /// Is cancelled when only those bytes are read that are in the pipe already.
    overdue: &'a CancellationToken,
    left_when_overdue: usize,
}

impl<'a, R: AsyncRead + Unpin> Lines<'a, R> {
    pub(super) fn new(stream: R, overdue: &'a CancellationToken) -> Self {
        Self {
            stream: BufReader::new(stream),
            overdue,
            left_when_overdue: MAX_PIPE_BYTES,
        }
    }

    /// Returns the next line without its line feed. `None`: the stream has ended or failed.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let bytes = self.fill().await;
            if bytes.is_empty() {
                return (!line.is_empty()).then_some(line);
            }
            let room = MAX_LINE_BYTES - line.len();
            let (count, used, is_whole) =
                match bytes.iter().take(room + 1).position(|byte| *byte == b'\n') {
                    Some(end) => (end, end + 1, true),
                    None if bytes.len() > room => (room, room, true),
                    None => (bytes.len(), bytes.len(), false),
                };
            line.extend_from_slice(&bytes[..count]);
            self.stream.consume(used);
            if self.overdue.is_cancelled() {
                self.left_when_overdue = self.left_when_overdue.saturating_sub(used);
            }
            if is_whole {
                return Some(line);
            }
        }
    }

    /// Returns the bytes that come next. They are empty at the end.
    async fn fill(&mut self) -> &[u8] {
        if self.left_when_overdue == 0 {
            return &[];
        }
        tokio::select! {
            biased;
            bytes = self.stream.fill_buf() => bytes.unwrap_or_default(),
            () = self.overdue.cancelled() => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], overdue: &CancellationToken) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(text, overdue);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await {
            read.push(line);
        }
        read
    }

    #[tokio::test]
    async fn long_line_is_split() {
        let endless = CancellationToken::new();
        assert_eq!(lines(b"a\n\nb", &endless).await, [&b"a"[..], b"", b"b"]);
        let long = vec![b'x'; MAX_LINE_BYTES];
        let with_end = [&long[..], b"\n"].concat();
        assert_eq!(lines(&with_end, &endless).await, [&long[..]]);
        let longer = [&long[..], b"x"].concat();
        assert_eq!(lines(&longer, &endless).await, [&long[..], b"x"]);
    }

    #[tokio::test]
    async fn overdue_stream_is_read_as_far_as_a_pipe_holds() {
        let overdue = CancellationToken::new();
        overdue.cancel();
        let text = b"x\n".repeat(MAX_PIPE_BYTES);
        assert_eq!(lines(&text, &overdue).await.len(), MAX_PIPE_BYTES / 2);
    }
}
