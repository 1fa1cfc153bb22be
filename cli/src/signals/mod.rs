//! Receives signals one after the other, and stops the command itself. The events of a Windows
//! console count as the signals that correspond to them.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use self::unix::{Signal, Signals, has_job_control, is_ignored, stop_ourselves};
#[cfg(windows)]
pub(crate) use self::windows::{Signal, Signals, has_job_control, stop_ourselves};
