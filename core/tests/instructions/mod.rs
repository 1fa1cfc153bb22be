//! Counts the instructions that some work takes: the same number on a busy machine as on an idle one.

use libc::{c_int, pid_t};

/// How many instructions this takes, in a copy of this process. What is done there is not seen here.
pub(crate) fn instructions<T>(work: impl FnOnce() -> T) -> u64 {
    run(work).saturating_sub(run(|| ()))
}

/// A child stops before and after the work; in between its parent takes it from one instruction to the next.
fn run<T>(work: impl FnOnce() -> T) -> u64 {
    // Safety: the child does not return from here; it uses no lock but the allocator's, which `fork` keeps usable.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no copy of this process");
    if child == 0 {
        // Freed memory that the allocator has not sorted out yet would be at some work's expense.
        drop(std::hint::black_box(vec![0u8; 100_000]));
        // Safety: asks this process's parent to trace it; takes no memory.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        stop();
        std::mem::forget(work());
        stop();
        // Safety: ends this process, without its parent's cleanup.
        unsafe { libc::_exit(0) };
    }
    assert!(libc::WIFSTOPPED(wait(child)), "not traced");
    let mut count = 0;
    // The last stop is the second; stopping the first is not finished yet.
    loop {
        // Safety: a child of ours that is stopped, and told to go on by one instruction.
        let stepped = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) };
        assert_eq!(stepped, 0, "it cannot be stepped");
        let status = wait(child);
        if !libc::WIFSTOPPED(status) || libc::WSTOPSIG(status) == libc::SIGSTOP {
            assert!(libc::WIFSTOPPED(status), "the work failed");
            break;
        }
        count += 1;
    }
    // Safety: a child of ours, which is not needed any more.
    unsafe { libc::kill(child, libc::SIGKILL) };
    wait(child);
    count
}

fn stop() {
    // Safety: stops this process until its parent tells it to go on.
    unsafe { libc::raise(libc::SIGSTOP) };
}

fn wait(child: pid_t) -> c_int {
    let mut status = 0;
    // Safety: writes to a variable of ours.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "the copy is gone");
    status
}
