//! Tests of the engine against the embedded server over TCP. A proxy between them can delay, drop
//! or refuse single requests. `tests/scenarios` tests real servers.

mod access;
mod chroot;
mod cohort;
mod connecting;
mod crowds;
mod deadlock;
mod draining;
mod election;
mod grace;
mod handles;
mod health;
mod leaving;
mod limits;
mod linger;
mod lost_replies;
mod multi;
mod once;
mod owners;
mod parents;
mod paused_process;
mod proxy;
mod readwrite;
mod reasons;
mod request_sizes;
mod revocation;
mod scopes;
mod second;
mod semaphore;
mod sequence;
mod sharing;
mod states;
mod values;
mod watches;

use std::time::Duration;

use proxy::Proxy;
use tokio::time::timeout;
use zklock::{Client, ClientOptions, Lease, Mutex};
use zklock_embedded::Server;

/// Timeout of a test. It is long because some tests exchange a thousand messages, and a busy
/// machine can delay each of them.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a test on its own runtime, with a timeout.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(LIMIT, test).await.expect("the test hangs") })
}

async fn server() -> Server {
    Server::start("127.0.0.1:0").await.expect("a free port")
}

fn options(hosts: &str) -> ClientOptions {
    ClientOptions::new(Some(hosts)).expect("hosts")
}

async fn client(hosts: &str) -> Client {
    Client::connect_with(options(hosts)).await.expect("a server that answers")
}

/// Connects a client with this session timeout.
async fn brief_client(hosts: &str, session_timeout: Duration) -> Client {
    let options = options(hosts).session_timeout(session_timeout).expect("a time-out");
    Client::connect_with(options).await.expect("a server that answers")
}

fn mutex(client: &Client, path: &str) -> Mutex {
    Mutex::new(client, path).expect("a path")
}

async fn hold(client: &Client, path: &str) -> Lease {
    mutex(client, path).acquire().await.expect("the lock")
}

/// Waits until a lock has `count` contenders.
async fn until_contenders(lock: &zklock::Lock, count: usize) {
    while lock.contenders().await.expect("an answer").len() != count {
        tokio::task::yield_now().await;
    }
}

/// Starts a server and a proxy in front of it.
async fn behind_proxy() -> (Server, Proxy) {
    let server = server().await;
    let proxy = Proxy::start(server.hosts()).await;
    (server, proxy)
}
