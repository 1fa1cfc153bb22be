//! Moves process groups to the foreground of the terminal. Only the foreground group can read from
//! the terminal, and only it receives Ctrl-C and Ctrl-Z.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The controlling terminal of this process.
#[derive(Clone)]
pub(crate) struct Terminal(Arc<File>);

impl Terminal {
    /// Opens the terminal, if there is one.
    pub(crate) fn open() -> Option<Self> {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // Block SIGTTOU, so that this process can take the terminal back, and can write to it from
        // the background.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        stop.thread_block().ok()?;
        Some(Self(Arc::new(terminal)))
    }

    /// Returns `true` if this process's group is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&*self.0) == Ok(getpgrp())
    }

    /// Returns `true` if the command must start in the foreground of the terminal. In a pipeline,
    /// it must start in the background. The other programs of the pipeline, such as a pager, are in
    /// our group, and would otherwise be stopped when they use the terminal. The command is moved
    /// to the foreground when it tries to use the terminal.
    pub(crate) fn is_for_the_command(&self) -> bool {
        self.is_ours() && stdin().is_terminal() && stdout().is_terminal()
    }

    /// Moves a group to the foreground. Makes only system calls, because it is also called between
    /// fork and exec.
    pub(crate) fn hand_to(&self, group: Pid) {
        // The call fails if the terminal has been hung up.
        tcsetpgrp(&*self.0, group).ok();
    }

    /// Moves this process's group to the foreground if `group` is there now.
    pub(crate) fn take_back(&self, group: Pid) {
        if tcgetpgrp(&*self.0) == Ok(group) {
            self.hand_to(getpgrp());
        }
    }
}
