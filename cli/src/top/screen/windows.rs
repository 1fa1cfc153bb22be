//! The console on Windows. Its input has the settings, which crossterm keeps.

use std::fs::File;
use std::io::Result;

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// The settings of a console.
pub(super) struct Settings;

/// Opens the active screen of this process's console.
pub(super) fn open() -> Result<File> {
    File::options().read(true).write(true).open("CONOUT$")
}

#[expect(clippy::unnecessary_wraps, reason = "can fail on Unix")]
pub(super) fn settings(_console: &File) -> Result<Settings> {
    Ok(Settings)
}

/// Makes the console pass on each key without showing it.
pub(super) fn set_raw(_console: &File, _before: &Settings) -> Result<()> {
    enable_raw_mode()
}

/// Restores the settings. Does nothing if the console is gone.
pub(super) fn restore(_console: &File, _before: &Settings) {
    disable_raw_mode().ok();
}
