//! The server on its own thread, for tests in programs of any kind.

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

/// Maximum time to wait for the server's thread to exit. It exits within milliseconds unless it
/// hangs.
const END: Duration = Duration::from_secs(10);

/// A server for tests, on its own thread named `zklock-server`. For development and tests only: use
/// Apache ZooKeeper in production.
///
/// The methods block briefly, even within asynchronous code. They can be called from any thread.
/// Dropping the server stops it.
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
///     std::thread::yield_now(); // The client learns of the loss soon.
/// }
/// assert!(server.tree()?.keys().all(|path| !path.starts_with("/locks/report/")));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// All methods fail after the server was stopped. They also fail in a forked child of the process
/// that started the server, because the server's thread exists only in that process. A child can
/// start its own server.
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    process: u32,
    /// Never dropped in a forked child, because the thread belongs to the parent.
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
    /// Fails with `Disconnected` when the server's thread is done.
    ended: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server on a free port of this machine. Clients can connect when this function
    /// returns.
    ///
    /// # Errors
    /// The operating system has no port or thread left.
    pub fn start() -> io::Result<Self> {
        Self::start_on("127.0.0.1:0", Settings::random())
    }

    /// Starts a server on an address, with settings. [`Settings::random`] is a good basis for them.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken, or the operating system has no thread left.
    pub fn start_on(address: impl ToSocketAddrs, settings: Settings) -> io::Result<Self> {
        // Resolve the address and bind before the runtime starts. On the runtime, tokio would
        // resolve the address on an additional thread.
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
                // Dropping the sender is the signal to stop. The receiver then returns an error.
                stopped.await.unwrap_or_default();
                server.stop().await;
            });
            // Closes the connections.
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

    /// Returns the server's address in the form that clients expect: `127.0.0.1:40000`.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.address.to_string()
    }

    /// Ends a session now, as if its client had been silent for the session timeout. Returns
    /// whether the session existed. When this returns, the session's nodes are deleted and its
    /// connection is closed.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn expire(&self, session: i64) -> io::Result<bool> {
        self.ask(move |host| host.expire(session))
    }

    /// Closes the connection of a session. Returns whether the session had a connection. Bytes on
    /// their way to the client are lost. The session continues, and its client can reconnect
    /// immediately.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn disconnect(&self, session: i64) -> io::Result<bool> {
        self.ask(move |host| host.disconnect(session))
    }

    /// Stops all traffic until [`resume`](TestServer::resume), like a server that hangs.
    /// Connections stay open, but the server reads and sends nothing. It accepts new connections
    /// and does not reply on them. The clock for session timeouts stops, so no session expires
    /// during the pause. The other methods still work. If `expire` ends a session during the pause,
    /// its client notices this after the pause.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn pause(&self) -> io::Result<()> {
        self.ask(Host::pause)
    }

    /// Ends a pause. The server then reads what arrived during the pause, and sends what was due.
    /// Without a pause this does nothing.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn resume(&self) -> io::Result<()> {
        self.ask(Host::resume)
    }

    /// Delays every reply and event by `delay`, at most a day, and keeps their order. A round trip
    /// then takes at least that long. Zero removes the delay. Messages already on their way keep
    /// their delay.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn latency(&self, delay: Duration) -> io::Result<()> {
        self.ask(move |host| host.set_latency(delay))
    }

    /// Returns the data of all nodes by path, without ZooKeeper's own nodes.
    ///
    /// # Errors
    /// See [`TestServer`].
    pub fn tree(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        self.ask(|host| host.tree())
    }

    /// Closes the port and all connections, and waits until the server's thread exits. Clients can
    /// no longer reach the server, and the nodes are lost. A second call does nothing.
    ///
    /// # Errors
    /// The thread does not exit within 10 seconds. See also [`TestServer`].
    pub fn stop(&self) -> io::Result<()> {
        self.check()?;
        // Hold the lock until the end, so that a concurrent second call returns only after the
        // server has stopped.
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
            // Hold the lock while sending, so that no stop begins meanwhile. Otherwise the request
            // could stay in the closed channel, and this call would wait forever.
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
            // An error cannot be reported from `drop`.
            self.stop().unwrap_or_default();
            // SAFETY: the field is not used again.
            unsafe { ManuallyDrop::drop(&mut self.thread) };
        }
    }
}

/// Blocks all signals on the calling thread, so that the program's other threads receive them.
#[cfg(unix)]
fn block_signals() {
    // SAFETY: the calls only use a local signal set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Does nothing: there are no Unix signals to block.
#[cfg(not(unix))]
fn block_signals() {}
