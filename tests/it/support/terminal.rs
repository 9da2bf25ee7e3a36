//! A terminal for programs that need one: tmux, with a server of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Command, comes_true, eventually, need};

/// One program on a screen of 100 by 30.
pub(crate) struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Starts `command` (a shell line) in `dir`, with the socket of the server in `scratch`.
    pub(crate) fn start(scratch: &Path, dir: &Path, command: &str) -> Self {
        // A server that is going still holds its socket: each has a name of its own.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        need("tmux", "tmux");
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { socket: scratch.join(format!("tmux-{number}")) };
        let size = ["-x", "100", "-y", "30"];
        let start = terminal.tmux(&["-f", "/dev/null", "new-session", "-d"]);
        start.args(size).arg("-c").arg(dir).arg(command).stdout();
        terminal
    }

    /// Types text. Names such as `Enter` and `C-x` are keys.
    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&["send-keys"]).args(keys).stdout();
    }

    /// Changes the size of the screen.
    pub(crate) fn resize(&self, columns: u32, rows: u32) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]).stdout();
    }

    /// Returns the text on the screen. It is empty once the program has ended.
    pub(crate) fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]).run();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the text on the screen, once `shown` returns true for it.
    pub(crate) fn screen_when(&self, what: &str, shown: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let seen = comes_true(|| {
            screen = self.screen();
            shown(&screen)
        });
        assert!(seen, "{what}: the screen stays\n{screen}");
        screen
    }

    /// Waits for the program to end.
    pub(crate) fn ended(&self) {
        eventually("the program on the terminal ends", || {
            self.tmux(&["has-session"]).run().code != 0
        });
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        Command::new("tmux").env("LC_ALL", "C.UTF-8").arg("-S").arg(&self.socket).args(arguments)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Not a second panic, where a test is failing already.
        self.tmux(&["kill-server"]).limit(5).finish();
    }
}
