//! A forked child cannot use the clients that it inherited, but can use clients that it creates.
//!
//! In this test, the server never replies. The server's end of the connection shows whether the
//! child has sent any data. The Python tests cover leases in forked children, because forks are
//! common in Python programs.
#![cfg(unix)]

use std::future::Future;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zklock::{Client, ClientOptions, ErrorKind, Mutex, Result};

/// Length of the connect request in bytes.
const GREETING: usize = 49;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Runs a function in a forked child, and fails if the function panics.
fn in_child(run: impl FnOnce()) {
    // SAFETY: the child only does what is allowed in a child of a multithreaded process. It
    // allocates memory, which the C library supports, but uses no mutex that another thread could
    // have locked. It exits without reporting to the test runner.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // The alarm kills a child that hangs.
            libc::alarm(20);
            let outcome = catch_unwind(AssertUnwindSafe(run));
            libc::_exit(outcome.is_err().into());
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0, "the child's status; its output says more");
    }
}

fn refused<T>(result: Result<T>) {
    assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::Forked));
}

/// Accepts the next connection and reads the connect request.
fn greeted(silent: &TcpListener) -> TcpStream {
    let (mut connection, _) = silent.accept().expect("a connection");
    connection.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let mut greeting = [0; GREETING];
    connection.read_exact(&mut greeting).expect("a greeting");
    connection
}

#[test]
fn a_child_of_a_process_that_connects_and_waits() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hosts = silent.local_addr().expect("an address").to_string();
    let options = |wait: u64| {
        let options = ClientOptions::new(Some(&hosts))?;
        options.connect_timeout(Duration::from_millis(wait))
    };
    let client = Client::new(options(60_000).expect("options"));
    let lock = Mutex::new(&client, "/fork").expect("a lock");
    let mut waiting = pin!(lock.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let mut parents = greeted(&silent);

    in_child(|| {
        refused(block_on(lock.acquire()));
        refused(block_on(lock.try_acquire()));
        refused(block_on(lock.contenders()));
        refused(block_on(client.ready()));
        refused(block_on(client.revoke("/fork/lock-0000000000")));
        refused(block_on(client.get("/fork/n")));
        refused(block_on(client.set_shared_count("/fork/n", 1)));
        refused(block_on(client.close()));
        // The child creates this client itself, with its own thread. It gets no reply either.
        let own = Client::new(options(200).expect("options"));
        let error = block_on(own.ready()).expect_err("no server answers");
        assert_eq!(error.kind(), ErrorKind::ConnectionFailed);
        zklock::shutdown(Duration::from_secs(1));
    });

    drop(greeted(&silent));
    assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Pending));
    parents.set_nonblocking(true).expect("a socket");
    let word = parents.read(&mut [0; 64]);
    assert_eq!(
        word.map_err(|error| error.kind()),
        Err(std::io::ErrorKind::WouldBlock),
        "nothing is sent for the parent"
    );
}
