//! The client of commands that send a few requests and then exit, unlike `zklock run`.

use tokio::runtime::{Builder, Runtime};
use zklock::{Client, ClientOptions};

use crate::connection::Connection;
use crate::failure::Failure;

/// Runs the futures of this thread.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("cannot start the runtime", &error))
}

/// Returns the options of such a client.
pub(crate) fn client_options(connection: &Connection) -> Result<ClientOptions, Failure> {
    Ok(connection.options(None)?.label(Some("zklock".to_owned()))?)
}

/// Connects, runs the work, and closes the session.
pub(crate) fn with_client<T>(
    connection: &Connection,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let options = client_options(connection)?;
    runtime()?.block_on(async {
        let client = Client::new(options);
        client.ready().await?;
        let outcome = work(&client).await;
        client.close().await.ok();
        outcome
    })
}
