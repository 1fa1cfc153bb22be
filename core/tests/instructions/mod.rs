//! Counts the CPU instructions of a function. The count is the same on a busy machine.

use libc::{c_int, pid_t};

/// Returns the number of instructions that `work` executes. It runs in a copy of this process, so
/// it cannot change this process.
pub(crate) fn instructions<T>(work: impl FnOnce() -> T) -> u64 {
    run(work).saturating_sub(run(|| ()))
}

/// Runs `work` in a child process, which stops before and after `work`. Between the two stops, the
/// parent executes the child instruction by instruction.
fn run<T>(work: impl FnOnce() -> T) -> u64 {
    // Safety: the child does not return from this function. It uses no mutex except the
    // allocator's, which `fork` keeps usable.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no copy of this process");
    if child == 0 {
        // Make the allocator consolidate freed memory now, so that it does not happen during
        // `work`.
        drop(std::hint::black_box(vec![0u8; 100_000]));
        // Safety: asks the parent to trace this process. The call accesses no memory.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        stop();
        std::mem::forget(work());
        stop();
        // Safety: exits this process without the parent's cleanup.
        unsafe { libc::_exit(0) };
    }
    assert!(libc::WIFSTOPPED(wait(child)), "not traced");
    let mut count = 0;
    // Single-step until the second stop signal. The child is still stopped at the first one.
    loop {
        // Safety: the child process belongs to this process and is stopped. The call lets it
        // execute one instruction.
        let stepped = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) };
        assert_eq!(stepped, 0, "it cannot be stepped");
        let status = wait(child);
        if !libc::WIFSTOPPED(status) || libc::WSTOPSIG(status) == libc::SIGSTOP {
            assert!(libc::WIFSTOPPED(status), "the work failed");
            break;
        }
        count += 1;
    }
    // Safety: the child is ours, and is not needed any more.
    unsafe { libc::kill(child, libc::SIGKILL) };
    wait(child);
    count
}

fn stop() {
    // Safety: stops this process until its parent continues it.
    unsafe { libc::raise(libc::SIGSTOP) };
}

fn wait(child: pid_t) -> c_int {
    let mut status = 0;
    // Safety: writes to a local variable.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "the copy is gone");
    status
}
