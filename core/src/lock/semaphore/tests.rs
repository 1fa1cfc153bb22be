//! Tests for errors of a semaphore that need no server.

use crate::client::Client;
use crate::config::ClientOptions;
use crate::lock::semaphore::*;
use crate::queue::Naming;

/// Creates a client that never connects.
fn client() -> Client {
    Client::new(ClientOptions::new(Some("a:1")).unwrap())
}

fn refused(permits: impl Into<Permits>, options: LockOptions) -> (ErrorKind, Option<String>) {
    let error = Semaphore::with_options(client(), "/s", permits, options).unwrap_err();
    (error.kind(), error.argument().map(ToOwned::to_owned))
}

#[test]
fn what_a_semaphore_cannot_do_is_refused_by_name() {
    let options = LockOptions::default;
    let bad = |argument: &str| (ErrorKind::BadArgument, Some(argument.to_owned()));
    assert_eq!(refused(0, options()), bad("permits"));
    assert_eq!(refused(Permits::SharedCount("count".to_owned()), options()), bad("shared_count"));
    assert_eq!(refused(1, options().reentrant(true)), bad("reentrant"));
    assert_eq!(refused(1, options().naming(Naming::Kazoo)), bad("naming"));
    assert_eq!(refused(1, options().max_hold(Duration::ZERO)), bad("max_hold"));
    assert_eq!(Semaphore::new(client(), "s", 1).unwrap_err().argument(), Some("path"));
}

#[test]
fn the_limit_of_a_path_is_that_of_the_directory_with_the_longer_name() {
    for length in [4090, 4095, 4096, 5000] {
        let path = format!("/{}", "a".repeat(length - 1));
        let refused = Semaphore::new(client(), &path, 1).unwrap_err();
        let problem = format!("path: is {length} bytes long; the limit is 4089 bytes");
        assert_eq!(refused.to_string(), problem);
    }
    assert!(Semaphore::new(client(), format!("/{}", "a".repeat(4088)), 1).is_ok());
}

#[tokio::test]
async fn no_permits_and_more_than_there_are_are_refused_without_a_request() {
    let client = client();
    let fixed = Semaphore::new(&client, "/s", 2).unwrap();
    for count in [0, 3] {
        for timeout in [Timeout::Forever, Timeout::Try] {
            let error = fixed.acquire_many(count, timeout).await.unwrap_err();
            assert_eq!((error.kind(), error.argument()), (ErrorKind::BadArgument, Some("count")), "{count}");
        }
    }
    let counted = Permits::SharedCount("/count".to_owned());
    let counted = Semaphore::with_options(&client, "/s", counted, LockOptions::default()).unwrap();
    let error = counted.acquire_many(0, Timeout::Try).await.unwrap_err();
    assert_eq!(error.argument(), Some("count"));
    assert_eq!(client.state(), crate::driver::status::ClientState::Idle);
}

#[test]
fn the_limit_of_the_hold_is_one_of_permits_and_not_of_turns() {
    let options = LockOptions::default().max_hold(Duration::from_secs(1));
    let semaphore = Semaphore::with_options(client(), "/s", 2, options).unwrap();
    assert_eq!(semaphore.turns.kind(), Kind::Exclusive);
    assert_eq!(
        (semaphore.turns.max_hold(), semaphore.leases.max_hold()),
        (None, Some(Duration::from_secs(1)))
    );
    assert_eq!((semaphore.turns.absolute_path(), semaphore.path()), ("/s", "/s"));
}
