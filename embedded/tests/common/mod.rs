//! A server for one test, and a client of it.

use std::time::Duration;

use tokio::time::timeout;
use zklock::Client;
use zklock_embedded::Server;

/// Generous timeout: even a loaded machine finishes earlier.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test, and fails if it hangs.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(LIMIT, test).await.expect("the test hangs") })
}

/// Starts a server on a free port.
pub(crate) async fn server() -> Server {
    Server::start("127.0.0.1:0").await.expect("a free port")
}

/// Connects a client to a server.
pub(crate) async fn client(server: &Server) -> Client {
    Client::connect(&server.hosts()).await.expect("a server that answers")
}
