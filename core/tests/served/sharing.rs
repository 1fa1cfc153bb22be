//! Two locks use the same client if their client options are equal.

use std::time::Duration;

use zklock::{Client, ClientOptions, ClientSource, Mutex, ReadWriteLock, Semaphore};

use super::{options, run, server};

#[test]
fn locks_of_every_kind_share_the_session_of_the_same_options() {
    run(async {
        let server = server().await;
        let brief = || options(&server.hosts()).session_timeout(Duration::from_secs(7)).expect("a time-out");
        let labelled = || brief().label(Some("labelled".to_owned())).expect("a label");
        let mut sessions = Vec::new();
        for (name, given) in [("brief", &brief as &dyn Fn() -> ClientOptions), ("labelled", &labelled)] {
            let source = || ClientSource::from(given());
            let pair = ReadWriteLock::new(source(), format!("/{name}/rw")).expect("a path");
            let held = [
                Mutex::new(source(), format!("/{name}/m")).expect("a path").acquire().await,
                Semaphore::new(source(), format!("/{name}/s"), 2).expect("a path").acquire().await,
                pair.read_lock.acquire().await,
            ];
            let held: Vec<_> = held.into_iter().map(|lease| lease.expect("the lock")).collect();
            let first = held[0].session_id();
            assert!(held.iter().all(|lease| lease.session_id() == first), "{name}");
            assert_eq!(Client::shared(&given()).session_id(), first);
            sessions.push(first);
        }
        assert_ne!(sessions[0], sessions[1]);
    });
}
