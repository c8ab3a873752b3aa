//! A terminal for the program under test: a pseudo-terminal on which the test reads and types.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Time limit for the program to print the text that the test waits for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The program on its terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    /// Runs the program in `folder`, on a terminal of unknown size.
    pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Self {
        Self::sized(folder, arguments, (0, 0))
    }

    /// Runs the program in `folder`, on a terminal of this width and height.
    pub(crate) fn sized(folder: &Path, arguments: &[&str], size: (u16, u16)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = Winsize {
            ws_col: size.0,
            ws_row: size.1,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let name = name.into_string().expect("UTF-8");
        let terminal = || {
            let file = OpenOptions::new().read(true).write(true).open(&name);
            file.expect("the terminal opens")
        };
        let child = Command::new(env!("CARGO_BIN_EXE_lease-broker"))
            .current_dir(folder)
            .args(arguments)
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal())
            .spawn()
            .expect("the program starts");
        let keyboard = File::from(master);
        let mut reader = keyboard.try_clone().expect("a second handle");
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the program has closed its side.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keyboard,
            screen,
            shown: String::new(),
        }
    }

    /// Waits until the program shows `text`, then types `keys`. Returns all that the program has shown since the last answer.
    pub(crate) fn answer(&mut self, text: &str, keys: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        while !self.shown.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = self.screen.recv_timeout(left);
            let bytes = bytes.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
        std::mem::take(&mut self.shown)
    }

    /// Sends the program a signal. Ctrl-C would not do: this terminal controls no session.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = Pid::from_child(&self.child);
        kill_process(process, signal).expect("sent");
    }

    /// Waits until the program ends. Returns its exit code and the rest of the screen.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("the program ends");
        while let Ok(bytes) = self.screen.recv_timeout(TIMEOUT) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        (status.code(), self.shown)
    }
}
