//! The guaranteed time of a lease that is granted after a pause.

use std::time::Duration;

use super::{brief_client, hold, run, server};

const TIMEOUT: Duration = Duration::from_secs(4);

#[test]
fn a_client_that_did_nothing_for_long_gets_a_whole_term() {
    run(async {
        let server = server().await;
        let client = brief_client(&server.hosts(), TIMEOUT).await;
        let timeout = client.session_timeout();
        // The client pings in the meantime. It sends no other sign of life.
        tokio::time::sleep(timeout * 2).await;
        let began = std::time::Instant::now();
        let lease = hold(&client, "/l").await;
        let whole = timeout / 2;
        // A busy machine may be slow, but a missing ping would shorten the term by more than this.
        let (remaining, took) = (lease.remaining(), began.elapsed());
        assert!(
            remaining <= whole && remaining + took + timeout / 16 > whole,
            "{remaining:?} of {whole:?}, {took:?}"
        );
    });
}
