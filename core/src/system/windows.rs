//! The calls on Windows, 10 or later.

use std::ptr::{null, null_mut};
use std::time::{Duration, SystemTime};

use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleHandleExW,
    GetModuleHandleW,
};
use windows_sys::Win32::System::SystemInformation::{ComputerNameDnsHostname, GetComputerNameExW};
use windows_sys::Win32::System::WindowsProgramming::QueryInterruptTimePrecise;

/// Reads the interrupt time, which goes on while the machine sleeps or hibernates.
///
/// Never read the unbiased interrupt time instead (`QueryUnbiasedInterruptTime`): it stops during a
/// suspension. The server does not stop: it ends the session and gives the lock to the next
/// contender. A holder with a clock that stopped would still trust its lease after it wakes, for as
/// long as was left of the term when the machine was suspended, so two would hold the lock.
pub(crate) fn since_boot() -> Duration {
    let mut ticks = 0;
    // SAFETY: writes a number into a local variable, and cannot fail.
    unsafe { QueryInterruptTimePrecise(&raw mut ticks) };
    // A tick is 100 ns.
    Duration::new(ticks / 10_000_000, u32::try_from(ticks % 10_000_000 * 100).unwrap_or_default())
}

/// A clock before 1970 counts as 1970.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns the host name of the domain name system, as `hostname` prints it, without its domain.
/// The name does not come from the environment, which a program can change.
pub(crate) fn host_name() -> String {
    let mut length = 0;
    // SAFETY: asks for the length only, in UTF-16 units with the final zero.
    unsafe { GetComputerNameExW(ComputerNameDnsHostname, null_mut(), &raw mut length) };
    let mut name = vec![0_u16; length as usize];
    // SAFETY: the buffer has `length` units. The call fails if the name has grown meanwhile.
    let known = unsafe { GetComputerNameExW(ComputerNameDnsHostname, name.as_mut_ptr(), &raw mut length) };
    // On success, the length is the one without the final zero.
    let name = name.get(..length as usize).filter(|_| known != 0).unwrap_or_default();
    String::from_utf16_lossy(name)
}

/// Returns 0: Windows has no fork, so every handle belongs to the process that uses it.
pub(crate) fn forks() -> u64 {
    0
}

/// Does nothing: Windows interrupts no thread with a signal. It runs a console control handler on a
/// new thread.
#[doc(hidden)]
pub fn block_signals() {}

/// Registers the function with the C runtime of the program. It runs when `main` returns, also
/// after a panic there. It does not run after `std::process::exit`, which calls `ExitProcess` and
/// so ends the other threads first.
///
/// Returns `false` in a DLL. There the C runtime runs such functions when the DLL is unloaded: with
/// the loader's lock held and, at the end of the process, after the other threads have been ended
/// anywhere, also within a lock that the function needs. A function that closes sessions would wait
/// for a thread that is gone.
pub(crate) fn at_exit(hook: extern "C" fn()) -> bool {
    if !is_in_program(hook) {
        return false;
    }
    // SAFETY: a function without arguments that stays valid as long as this code, which the program
    // itself contains, and does not unwind.
    unsafe { libc::atexit(hook) == 0 }
}

/// Returns whether the program's own file contains this function, as opposed to a DLL.
fn is_in_program(function: extern "C" fn()) -> bool {
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let mut module = null_mut();
    // SAFETY: with these flags, the call takes an address in place of a name, and changes nothing
    // but the local variable.
    let found = unsafe { GetModuleHandleExW(flags, function as *const u16, &raw mut module) };
    // SAFETY: null asks for the handle of the program's own file.
    found != 0 && module == unsafe { GetModuleHandleW(null()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_this_program_is_in_it() {
        extern "C" fn ours() {}
        assert!(is_in_program(ours));
    }

    #[test]
    fn a_tick_is_a_hundred_nanoseconds() {
        assert_eq!(since_boot().subsec_nanos() % 100, 0);
    }
}
