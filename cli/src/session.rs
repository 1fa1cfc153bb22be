//! A client for one command that looks or changes, and then ends.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zklock::Client;

use crate::connection::Connection;
use crate::failure::Failure;

/// What drives the futures of this thread.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("cannot start", &error))
}

/// Connects, does the work, and closes the session.
pub(crate) fn with_client<T>(
    connection: &Connection,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_session(connection, None, work)
}

/// The same, with a session time-out to ask for.
pub(crate) fn with_session<T>(
    connection: &Connection,
    session_timeout: Option<Duration>,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut options = connection.options(None)?.label(Some("zklock".to_owned()))?;
    if let Some(time) = session_timeout {
        options = options.session_timeout(time)?;
    }
    runtime()?.block_on(async {
        let client = Client::new(options);
        client.ready().await?;
        let outcome = work(&client).await;
        client.close().await.ok();
        outcome
    })
}
