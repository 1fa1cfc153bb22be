//! The calls to the operating system that differ between Unix and Windows. Each system's file has
//! the same functions with the same contracts, which its comments complete.
//!
//! Signals and the permissions of files differ by more than a call. Their modules,
//! `client::signals`, `client::dump_signal` and `config::secret_file`, have a file per system of
//! their own.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use self::unix as this;
#[cfg(windows)]
use self::windows as this;

/// Returns the time since the machine booted. It includes the time during which the machine was
/// suspended, because the server counts that time too: by a clock that stops during a suspension, a
/// holder would trust its lease after the server has given the lock to another contender. Setting
/// the wall clock does not change it.
pub(crate) use self::this::since_boot;

/// Returns the time since 1970 by the wall clock.
pub(crate) use self::this::since_1970;

/// Returns the name of this host, or an empty string if the system does not provide one.
pub(crate) use self::this::host_name;

/// Returns the number of forks between the process that first called this function and this one.
pub(crate) use self::this::forks;

/// Blocks all signals on the calling thread, so that they are delivered to the program's own
/// threads, which expect them.
pub use self::this::block_signals;

/// Registers a function that the process runs when it ends in an orderly way, while its other
/// threads still run. The function must not unwind. Returns `false` if the function will not run.
pub(crate) use self::this::at_exit;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::*;

    #[test]
    fn the_time_since_the_boot_does_not_go_back() {
        let mut earlier = since_boot();
        assert!(earlier > Duration::ZERO);
        for _ in 0..1000 {
            let now = since_boot();
            assert!(now >= earlier);
            earlier = now;
        }
    }

    #[test]
    fn the_time_since_the_boot_passes_as_fast_as_time() {
        let (began, before) = (Instant::now(), since_boot());
        std::thread::sleep(Duration::from_millis(30));
        let passed = since_boot().checked_sub(before).unwrap();
        assert!(passed >= Duration::from_millis(29), "{passed:?}");
        assert!(passed <= began.elapsed() + Duration::from_millis(20), "{passed:?}");
    }

    #[test]
    fn the_wall_clock_is_the_system_s() {
        let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(since_1970().abs_diff(system) < Duration::from_secs(60));
    }

    #[test]
    fn a_host_has_a_name_without_zeros() {
        let name = host_name();
        assert!(!name.is_empty() && !name.contains(['\0', ' ']), "{name:?}");
    }

    #[test]
    fn a_process_that_did_not_fork_counts_no_fork() {
        assert_eq!((forks(), forks()), (0, 0));
    }

    #[test]
    fn a_thread_that_blocks_signals_goes_on() {
        assert_eq!(std::thread::spawn(block_signals).join().ok(), Some(()));
    }

    #[test]
    fn a_program_has_an_exit_hook() {
        extern "C" fn nothing() {}
        assert!(at_exit(nothing));
    }
}
