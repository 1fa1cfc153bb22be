//! Reaps orphaned processes. If `run` is the first process of a container or a subreaper, it
//! becomes their parent, and no other process can reap them. If a shell started `run` with `exec`,
//! `run` is also the parent of the shell's children.

use std::convert::Infallible;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::signals::Signals;

/// Reaps all children that have ended, except the command. `Child::poll_change` reads the command's
/// status.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn reap_orphans(command: Option<Pid>) {
    use nix::errno::Errno;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};

    // First find a child that has ended, without reaping it, because it could be the command.
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        let orphan = match waitid(Id::All, look) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) => pid,
            Err(Errno::EINTR) => continue,
            Ok(_) | Err(_) => return,
        };
        // The end of the command also ends the supervision.
        if Some(orphan) == command || waitpid(orphan, Some(WaitPidFlag::WNOHANG)).is_err() {
            return;
        }
    }
}

/// On other systems, only `init` becomes the parent of orphaned processes.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn reap_orphans(_command: Option<Pid>) {}

/// Reaps orphans while `work` runs, before the command is started.
pub(crate) async fn reap_during<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut children = Signals::listen(&[])?;
    children.add([Signal::SIGCHLD])?;
    tokio::select! {
        biased;
        outcome = work => outcome,
        never = reap_for_ever(children) => match never {},
    }
}

async fn reap_for_ever(mut children: Signals) -> Infallible {
    loop {
        reap_orphans(None);
        children.next().await;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use nix::errno::Errno;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};

    use super::*;

    /// Starts a child and waits until it has exited, without reaping it.
    #[expect(clippy::zombie_processes, reason = "a zombie is the subject")]
    fn ended(status: &str) -> Pid {
        let child = Command::new("sh").args(["-c", &format!("exit {status}")]).spawn().expect("a shell");
        let pid = Pid::from_raw(child.id().cast_signed());
        waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("its end");
        pid
    }

    /// This is the only test in this process that starts children.
    #[test]
    fn the_commands_status_is_left_to_others() {
        let (orphan, command) = (ended("3"), ended("9"));
        reap_orphans(Some(command));
        assert_eq!(waitpid(orphan, None), Err(Errno::ECHILD));
        assert_eq!(waitpid(command, None), Ok(WaitStatus::Exited(command, 9)));
        let other = ended("4");
        reap_orphans(None);
        assert_eq!(waitpid(other, None), Err(Errno::ECHILD));
    }
}
