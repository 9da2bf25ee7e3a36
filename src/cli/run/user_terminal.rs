//! The terminal of the user, on which ctxfs itself runs, if any.

use std::io;
use std::io::Stdin;

use rustix::process::getpgid;
use rustix::termios::{
    OptionalActions, Termios, Winsize, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};

/// The default size of a terminal.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// The terminal on standard input. In raw mode, it passes keys on unchanged. The mode is restored
/// when this is dropped.
#[derive(Debug)]
pub(super) struct UserTerminal {
    stdin: Stdin,
    /// The mode before raw mode.
    before: Option<Termios>,
}

impl UserTerminal {
    /// Returns the terminal without changing it.
    pub(super) fn find() -> Self {
        Self { stdin: io::stdin(), before: None }
    }

    /// Returns true if standard input is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        isatty(&self.stdin)
    }

    /// Returns true if this process may read standard input. A terminal belongs to its foreground
    /// process group, and stops other processes that read from it.
    pub(super) fn may_read(&self) -> bool {
        !self.is_terminal() || tcgetpgrp(&self.stdin).ok() == getpgid(None).ok()
    }

    /// Switches to raw mode, if this process may change the terminal.
    pub(super) fn make_raw(&mut self) {
        if self.before.is_some() || !self.is_terminal() || !self.may_read() {
            return;
        }
        let Ok(before) = tcgetattr(&self.stdin) else { return };
        let mut raw = before.clone();
        raw.make_raw();
        if tcsetattr(&self.stdin, OptionalActions::Drain, &raw).is_ok() {
            self.before = Some(before);
        }
    }

    /// Restores the mode.
    pub(super) fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            // The terminal may be gone.
            let _restored = tcsetattr(&self.stdin, OptionalActions::Drain, &before);
        }
    }

    /// Returns the size, or else that of the terminal on standard output.
    pub(super) fn size(&self) -> Winsize {
        let size = tcgetwinsize(&self.stdin).or_else(|_| tcgetwinsize(io::stdout()));
        size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0).unwrap_or(SIZE)
    }
}

impl Drop for UserTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}
