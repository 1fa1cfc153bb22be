//! The calls on Unix. This module calls libc, so a library that is linked or preloaded in front of
//! libc can set the time here too.

use std::ffi::CStr;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that cannot be set. It includes the time during which the machine was suspended, because
/// the server counts that time too.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// The monotonic clock, on other systems than Linux. It includes suspensions, unless the system has
/// a separate clock for that.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: libc::clockid_t = libc::CLOCK_MONOTONIC;

pub(crate) fn since_boot() -> Duration {
    read(BOOT)
}

pub(crate) fn since_1970() -> Duration {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is a local variable. The call cannot fail: every supported system has
    // these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

pub(crate) fn host_name() -> String {
    // SAFETY: all zeros is a valid value of this structure, which is a local variable. The
    // call fills it with strings that end in a zero byte.
    unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut names);
        CStr::from_ptr(names.nodename.as_ptr()).to_string_lossy().into_owned()
    }
}

static FORKS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn forks() -> u64 {
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[doc(hidden)]
pub fn block_signals() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// A forked child inherits the registration.
pub(crate) fn at_exit(hook: extern "C" fn()) -> bool {
    // SAFETY: a function without arguments that stays valid as long as this code, and does not
    // unwind.
    unsafe { libc::atexit(hook) == 0 }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn the_host_s_name_is_the_kernel_s() {
        let known = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(super::host_name(), known.trim());
    }
}
