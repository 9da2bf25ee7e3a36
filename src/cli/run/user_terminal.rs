//! The terminal that ctxfs itself is run on, if any.

use std::io;
use std::io::Stdin;

use rustix::process::getpgid;
use rustix::termios::OptionalActions;
use rustix::termios::Termios;
use rustix::termios::Winsize;
use rustix::termios::isatty;
use rustix::termios::tcgetattr;
use rustix::termios::tcgetpgrp;
use rustix::termios::tcgetwinsize;
use rustix::termios::tcsetattr;

/// What a terminal has where nobody says otherwise.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// The terminal on standard input. While it is raw, keys go on as they are; it is as before once
/// this is dropped.
#[derive(Debug)]
pub(super) struct UserTerminal {
    stdin: Stdin,
    /// How it was before it was made raw.
    before: Option<Termios>,
}

impl UserTerminal {
    /// Changes nothing yet.
    pub(super) fn find() -> Self {
        Self { stdin: io::stdin(), before: None }
    }

    /// Whether standard input is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        isatty(&self.stdin)
    }

    /// Whether what comes on standard input is for this process: a terminal belongs to those in its
    /// foreground, and stops others that read from it.
    pub(super) fn may_read(&self) -> bool {
        !self.is_terminal() || tcgetpgrp(&self.stdin).ok() == getpgid(None).ok()
    }

    /// Makes it raw, where it is ours to change.
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

    /// Makes it as it was.
    pub(super) fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            // Nothing to be done about a terminal that is gone.
            let _restored = tcsetattr(&self.stdin, OptionalActions::Drain, &before);
        }
    }

    /// Its size, else that of the terminal on standard output.
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
