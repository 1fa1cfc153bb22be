//! The server on a thread of its own, for tests in programs of any kind.

use std::collections::BTreeMap;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::process;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::host::{Control, Host};
use crate::net::Server;
use crate::settings::Settings;

/// How long the end of the thread is waited for. It ends within moments, or hangs for good.
const END: Duration = Duration::from_secs(10);

/// A server for tests, on a thread of its own named `zklock-server`. For development and tests only: production is
/// Apache ZooKeeper.
///
/// Its methods block for a moment, also within asynchronous code, and may be called from any thread. Dropping it stops
/// it.
///
/// ```
/// use zklock_embedded::TestServer;
///
/// let server = TestServer::start()?;
/// let client = zklock::blocking::Client::connect(&server.hosts())?;
/// let mutex = zklock::blocking::Mutex::new(&client, "/locks/report")?;
/// let lease = mutex.acquire()?;
/// assert_eq!(server.tree()?.keys().filter(|path| path.starts_with("/locks/report/")).count(), 1);
/// server.expire(lease.session_id())?;
/// while lease.check().is_ok() {
///     std::thread::yield_now(); // The client is about to hear of it.
/// }
/// assert!(server.tree()?.keys().all(|path| !path.starts_with("/locks/report/")));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// All methods fail once the server was stopped, and in a process that was forked from the one that started it: the
/// child has none of its parent's threads, so neither the server. Starting one there works.
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    process: u32,
    /// In a forked child not even dropped: it is the parent's.
    thread: ManuallyDrop<Thread>,
}

#[derive(Debug)]
struct Thread {
    controls: UnboundedSender<Control>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    /// Stops the server when dropped.
    stop: oneshot::Sender<()>,
    /// Fails when the server has ended.
    ended: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl TestServer {
    /// Starts on a free port of this machine. When it returns, clients can connect.
    ///
    /// # Errors
    /// The operating system has no port or thread left.
    pub fn start() -> io::Result<Self> {
        Self::start_on("127.0.0.1:0", Settings::random())
    }

    /// Starts on an address, with settings. Those of [`Settings::random`] are a good beginning.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken, or the operating system has no thread left.
    pub fn start_on(address: impl ToSocketAddrs, settings: Settings) -> io::Result<Self> {
        // Done here, and not on the runtime, which would have threads for it.
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let server = {
            let _entered = runtime.enter();
            Server::start_on(tokio::net::TcpListener::from_std(listener)?, settings)?
        };
        let controls = server.controls();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ending, ended) = mpsc::channel();
        let thread = Builder::new().name("zklock-server".to_owned()).spawn(move || {
            block_signals();
            runtime.block_on(async {
                // Ends with an error when the sender is dropped.
                stopped.await.unwrap_or_default();
                server.stop().await;
            });
            // Ends the connections.
            drop(runtime);
            drop(ending);
        })?;
        let running = Mutex::new(Some(Running { stop, ended, thread }));
        Ok(TestServer {
            address,
            process: process::id(),
            thread: ManuallyDrop::new(Thread { controls, running }),
        })
    }

    /// Where it listens, as a client wants it: `127.0.0.1:40000`.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.address.to_string()
    }

    /// Ends a session now, as if its client had been silent for its time-out; tells whether there was one. Its nodes are
    /// gone when it returns, and its connection is closed.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn expire(&self, session: i64) -> io::Result<bool> {
        self.ask(move |host| host.expire(session))
    }

    /// Cuts the connection of a session; tells whether it had one. What was on its way to the client is lost. The
    /// session lives on, and its client may connect again at once.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn disconnect(&self, session: i64) -> io::Result<bool> {
        self.ask(move |host| host.disconnect(session))
    }

    /// Falls silent until [`resume`](TestServer::resume), as a server that hangs: connections stay open, but nothing is
    /// read, answered or sent; new connections are accepted and hear nothing. The time of the sessions stands still,
    /// so that none expires meanwhile. The other methods of the server go on working; the clients of sessions that
    /// are expired hear of it after the pause.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn pause(&self) -> io::Result<()> {
        self.ask(Host::pause)
    }

    /// Ends a pause; does nothing without one. What was received meanwhile is read, and what was to be sent is sent.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn resume(&self) -> io::Result<()> {
        self.ask(Host::resume)
    }

    /// Sends every reply and event this much later, up to a day, and in order: a round trip takes at least that long.
    /// Zero ends it. What is on its way already keeps its delay.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn latency(&self, delay: Duration) -> io::Result<()> {
        self.ask(move |host| host.set_latency(delay))
    }

    /// The data of all nodes but ZooKeeper's own, by their paths.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn tree(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        self.ask(|host| host.tree())
    }

    /// Closes the port and all connections, and waits for the end of the thread. Clients see a server that went away;
    /// the nodes are gone. Does nothing the second time.
    ///
    /// # Errors
    /// The thread does not end, within 10 seconds; or see [`TestServer`].
    pub fn stop(&self) -> io::Result<()> {
        self.check()?;
        // Held to the end: who comes second returns when the server has stopped, too.
        let mut running = self.thread.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Running { stop, ended, thread }) = running.take() else { return Ok(()) };
        drop(stop);
        if ended.recv_timeout(END) == Err(mpsc::RecvTimeoutError::Timeout) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the thread of the server does not end"));
        }
        thread.join().map_err(|_| io::Error::other("the thread of the server panicked: this is a bug"))
    }

    fn check(&self) -> io::Result<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(io::Error::other("the server runs in the process that this one was forked from: start one here"))
    }

    fn ask<T: Send + 'static>(&self, control: impl FnOnce(&mut Host) -> T + Send + 'static) -> io::Result<T> {
        self.check()?;
        let (done, answer) = mpsc::sync_channel(1);
        let control: Control = Box::new(move |host| done.send(control(host)).unwrap_or_default());
        let stopped = |_| io::Error::new(io::ErrorKind::NotConnected, "the server was stopped");
        {
            // Sent before a stop begins, or not at all: what arrives as the channel closes would wait in it for ever.
            let running = self.thread.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.is_none() {
                return Err(stopped(mpsc::RecvError));
            }
            self.thread.controls.send(control).map_err(|_| stopped(mpsc::RecvError))?;
        }
        answer.recv().map_err(stopped)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.process == process::id() {
            // Nobody is left to tell.
            self.stop().unwrap_or_default();
            // SAFETY: not used again.
            unsafe { ManuallyDrop::drop(&mut self.thread) };
        }
    }
}

/// Blocks all signals on the calling thread, so that the host program's threads, which expect them, receive them.
#[cfg(unix)]
fn block_signals() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// There are none.
#[cfg(not(unix))]
fn block_signals() {}
