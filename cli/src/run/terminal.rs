//! The terminal, and whose it is: only the group in its foreground may read from it, and gets Ctrl-C and Ctrl-Z.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that controls this process.
#[derive(Clone)]
pub(crate) struct Terminal(Arc<File>);

impl Terminal {
    /// The terminal, if there is one.
    pub(crate) fn open() -> Option<Self> {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // So that this process may take the terminal back, and write to it, from the background.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        stop.thread_block().ok()?;
        Some(Self(Arc::new(terminal)))
    }

    /// Whether this process's group is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&*self.0) == Ok(getpgrp())
    }

    /// Whether the command is to have it from the start. In a pipeline the others have it: they are of our group, and a
    /// pager would be stopped. There the command gets it when it asks for it.
    pub(crate) fn is_for_the_command(&self) -> bool {
        self.is_ours() && stdin().is_terminal() && stdout().is_terminal()
    }

    /// Puts a group in the foreground. Only system calls: called between fork and exec too.
    pub(crate) fn hand_to(&self, group: Pid) {
        // A terminal that has been hung up is nobody's.
        tcsetpgrp(&*self.0, group).ok();
    }

    /// Puts this process's group in the foreground, if `group` is there.
    pub(crate) fn take_back(&self, group: Pid) {
        if tcgetpgrp(&*self.0) == Ok(group) {
            self.hand_to(getpgrp());
        }
    }
}
