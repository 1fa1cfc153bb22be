//! The terminal on Unix.

use std::fs::File;
use std::io::Result;

use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// The settings of a terminal.
pub(super) use nix::sys::termios::Termios as Settings;

/// Opens the controlling terminal of this process.
pub(super) fn open() -> Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

pub(super) fn settings(terminal: &File) -> Result<Settings> {
    Ok(tcgetattr(terminal)?)
}

/// Makes a terminal with these settings pass on each key without showing it.
pub(super) fn set_raw(terminal: &File, before: &Settings) -> Result<()> {
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    Ok(tcsetattr(terminal, SetArg::TCSADRAIN, &raw)?)
}

/// Restores the settings. Does nothing if the terminal was hung up.
pub(super) fn restore(terminal: &File, before: &Settings) {
    tcsetattr(terminal, SetArg::TCSADRAIN, before).ok();
}
