//! What a client says before it has a session.

use std::time::{Duration, Instant};

use zklock::{Client, ClientState, ErrorKind};

use super::{behind_proxy, hold, options, run};

#[test]
fn who_finds_no_server_is_told_in_time_and_who_asks_again_is_connected() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        proxy.cut(false);
        let limit = Duration::from_millis(300);
        let client = Client::new(options(&proxy.hosts).connect_timeout(limit).expect("a time-out"));
        let mut states = client.states();
        assert_eq!(client.state(), ClientState::Idle);
        let began = Instant::now();
        let refused = client.ready().await.expect_err("nobody answers");
        assert_eq!(refused.kind(), ErrorKind::ConnectionFailed, "{refused}");
        assert!(
            began.elapsed() >= limit && began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        // Nobody waits for a session any more, so it does not look for one.
        assert_eq!(states.next().await, Some(ClientState::Connecting));
        assert_eq!(states.next().await, Some(ClientState::Idle));
        proxy.come_back();
        client.ready().await.expect("a session");
        assert_eq!(states.next().await, Some(ClientState::Connecting));
        assert_eq!(states.next().await, Some(ClientState::Connected));
        assert_eq!(client.state(), ClientState::Connected);
        drop(hold(&client, "/l").await);
    });
}
