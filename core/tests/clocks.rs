//! Tests of the clock that leases use. This program replaces the C library's clock functions, so
//! that a test can set the wall clock or simulate a suspended machine.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zklock::{Client, LeaseState, LossReason};
use zklock_embedded::Server;

/// Seconds that the test adds to two clocks: the wall clock, and the clock that includes
/// suspensions.
static WALL: AtomicI64 = AtomicI64::new(0);
static BOOT: AtomicI64 = AtomicI64::new(0);

const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a clock, in place of the C library's function.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller passes arguments that are valid for the system call.
    let status = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    let wrong = match clock {
        libc::CLOCK_REALTIME => WALL.load(Ordering::Relaxed),
        libc::CLOCK_BOOTTIME => BOOT.load(Ordering::Relaxed),
        _ => 0,
    };
    if status == 0 && wrong != 0 {
        // SAFETY: the system call has just written to this address.
        unsafe { (*time).tv_sec += wrong };
    }
    libc::c_int::from(status != 0).wrapping_neg()
}

/// Serializes the tests, because they share the clocks.
fn clocks() -> MutexGuard<'static, ()> {
    static CLOCKS: Mutex<()> = Mutex::new(());
    CLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let limited = async { tokio::time::timeout(Duration::from_secs(30), test).await };
    runtime.block_on(limited).expect("the test hangs");
}

async fn held() -> (Server, Client, zklock::Lock, zklock::Lease) {
    let server = Server::start("127.0.0.1:0").await.expect("a free port");
    let client = Client::connect(&server.hosts()).await.expect("a server that answers");
    let lock = zklock::Lock::clone(&zklock::Mutex::new(&client, "/l").expect("a path"));
    let lease = lock.acquire().await.expect("the lock");
    (server, client, lock, lease)
}

#[test]
fn a_machine_that_was_suspended_for_longer_than_the_term_finds_its_lease_lost() {
    let _clocks = clocks();
    run(async {
        let (_server, _client, lock, lease) = held().await;
        BOOT.fetch_add(TIMEOUT.as_secs().cast_signed() / 2 + 1, Ordering::Relaxed);
        // Timers do not notice the suspension. So before any timer fires, the lease itself must
        // report the loss.
        assert_eq!(lease.remaining(), Duration::ZERO);
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::TermEnded));
        assert_eq!(lease.check().map_err(|error| error.code()), Err("LOCK_LOST"));
        assert_eq!(lease.lost().await, LossReason::TermEnded);
        // The client deletes the old node, and a new hold begins with a new term.
        let again = lock.acquire().await.expect("the lock");
        assert!(again.fencing_token() > lease.fencing_token() && again.check().is_ok());
    });
}

#[test]
fn a_wall_clock_that_is_set_changes_nothing() {
    let _clocks = clocks();
    run(async {
        let (_server, _client, _lock, lease) = held().await;
        let hour = 3600;
        for change in [hour, -2 * hour] {
            WALL.fetch_add(change, Ordering::Relaxed);
            assert_eq!(lease.state(), LeaseState::Held);
            let left = lease.remaining();
            assert!(left > TIMEOUT / 4 && left <= TIMEOUT / 2, "{left:?}");
        }
        WALL.store(0, Ordering::Relaxed);
    });
}
