//! Tests the remaining time of a lease that an idle client acquires.

use std::time::Duration;

use super::{brief_client, hold, run, server};

const TIMEOUT: Duration = Duration::from_secs(4);

#[test]
fn an_idle_client_gets_a_whole_term() {
    run(async {
        let server = server().await;
        let client = brief_client(&server.hosts(), TIMEOUT).await;
        let timeout = client.session_timeout();
        // In the meantime the client sends pings, but no other request.
        tokio::time::sleep(timeout * 2).await;
        let began = std::time::Instant::now();
        let lease = hold(&client, "/l").await;
        let whole = timeout / 2;
        // A reply to a ping also extends the term, so almost the whole term remains.
        let (remaining, took) = (lease.remaining(), began.elapsed());
        assert!(
            remaining <= whole && remaining + took + timeout / 16 > whole,
            "{remaining:?} of {whole:?}, {took:?}"
        );
    });
}
