//! Tests that run every operation twice in every state of a client. The tests check the results of
//! both runs, and that each run completes within the client's timeouts.

mod again;
mod operations;
mod reports;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock::{Client, ClientState, Lease, LeaseState};
use zklock_embedded::Server;

use super::proxy::Proxy;
use super::{behind_proxy, client, hold, mutex, options, run};
use operations::{OPERATIONS, perform};

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// Timeout of calls that get no reply.
const BRIEF: Duration = Duration::from_millis(400);
/// Timeout of calls that get a reply, generous enough for a busy machine.
const PATIENT: Duration = Duration::from_secs(20);

/// Time by which an operation may exceed its own timeout. The operation might wait until the term
/// ends, for at most half the session timeout, or for the reply to a close, for at most two
/// seconds. The rest is for a busy machine.
const BEYOND: Duration = Duration::from_secs(8);

/// Time for which a draining client waits until its lease is released. It is longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// The states of a client, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    /// The client was created and has sent nothing. A server is reachable.
    New,
    /// The client was created and has sent nothing. No server replies.
    Unreachable,
    /// No server replied at first, but now a server replies.
    Refused,
    /// The client is connected and holds a lock.
    Connected,
    /// The connection was cut and established again.
    Reconnected,
    /// The lock that it holds was broken.
    Broken,
    /// The session ended, and the client has begun another one.
    NewSession,
    /// The connection is cut, and the client cannot connect again.
    Cut,
    /// The client knows that its session has ended, but cannot begin another one.
    NoSession,
    /// The server does not reply any more.
    Silent,
    /// The client drains, and waits for the lock that it holds.
    Draining,
    /// The client is closing, and its server does not reply.
    Closing,
    /// Closed.
    Closed,
}

use Situation::{
    Broken, Closed, Closing, Connected, Cut, Draining, New, NewSession, NoSession, Reconnected, Refused,
    Silent, Unreachable,
};

const SITUATIONS: [Situation; 13] = [
    New,
    Unreachable,
    Refused,
    Connected,
    Reconnected,
    Broken,
    NewSession,
    Cut,
    NoSession,
    Silent,
    Draining,
    Closing,
    Closed,
];

impl Situation {
    /// Returns `true` if a server replies to the client.
    fn is_answered(self) -> bool {
        matches!(self, New | Refused | Connected | Reconnected | Broken | NewSession | Draining)
    }

    /// Returns the client's connect timeout. For `Refused` it is short, because the test waits
    /// until it has passed.
    fn connect_timeout(self) -> Duration {
        match self {
            Refused => 5 * BRIEF,
            _ if self.is_answered() => PATIENT,
            // Longer than the timeout of waits that have one.
            _ => 2 * BRIEF,
        }
    }

    /// Returns the time within which an operation must complete.
    fn patience(self) -> Duration {
        if self.is_answered() { PATIENT } else { BRIEF }
    }
}

/// A client in a given situation. `lease` is its lease of the lock `/held`, if it was ever
/// connected.
struct World {
    situation: Situation,
    server: Server,
    /// The proxy between the client and the server.
    proxy: Proxy,
    client: Client,
    lease: Option<Arc<Lease>>,
}

impl World {
    async fn reach(situation: Situation) -> Self {
        let (server, proxy) = behind_proxy().await;
        let settings = options(&proxy.hosts)
            .connect_timeout(situation.connect_timeout())
            .and_then(|options| options.session_timeout(SESSION_TIMEOUT));
        let operator = client(&server.hosts()).await;
        operator.set_shared_count("/n", 2).await.expect("a number");
        let client = Client::new(settings.expect("time-outs"));
        let mut world = Self { situation, server, proxy, client, lease: None };
        match situation {
            New => {}
            Unreachable => world.proxy.cut(false),
            Refused => {
                world.proxy.cut(false);
                world.client.ready().await.expect_err("nobody answers");
                world.proxy.come_back();
            }
            _ => {
                world.client.ready().await.expect("a server that answers");
                world.lease = Some(Arc::new(hold(&world.client, "/held").await));
                world.go_on(situation).await;
            }
        }
        world
    }

    async fn go_on(&self, situation: Situation) {
        let session = self.client.session_id();
        let lease = self.lease.as_ref().expect("a lease");
        match situation {
            Reconnected => {
                self.proxy.cut(false);
                self.until(ClientState::Suspended).await;
                self.proxy.come_back();
                until(|| lease.state() == LeaseState::Held).await;
            }
            Broken => {
                self.operator().await.break_lock(&lease.node()).await.expect("a node");
                lease.lost().await;
            }
            NewSession => {
                assert!(self.server.expire(session).await);
                until(|| ![0, session].contains(&self.client.session_id())).await;
                lease.lost().await;
            }
            Cut => {
                self.proxy.cut(false);
                self.until(ClientState::Suspended).await;
            }
            NoSession => {
                // Delay replies, so that the server can be paused between two of them: after the
                // client has learned that its session has ended, and before it gets a new session.
                self.server.latency(BRIEF / 2).await;
                assert!(self.server.expire(session).await);
                self.until(ClientState::Connecting).await;
                self.server.pause().await;
            }
            Silent => self.server.pause().await,
            Draining => drop(self.client.drain(LONG)),
            Closing => {
                self.server.pause().await;
                drop(self.client.close());
                self.until(ClientState::Closed).await;
            }
            Closed => self.client.close().await.expect("an end"),
            _ => {}
        }
    }

    async fn until(&self, state: ClientState) {
        until(|| self.client.state() == state).await;
    }

    /// Returns another client, which reaches the server.
    async fn operator(&self) -> Client {
        client(&self.server.hosts()).await
    }
}

async fn until(done: impl Fn() -> bool) {
    let waiting = async {
        while !done() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENT, waiting).await.expect("it does not come");
}

/// Runs an operation twice in a situation. Returns both results, separated by a comma, or a single
/// result if they are equal.
async fn twice(operation: &'static str, situation: Situation) -> String {
    let world = World::reach(situation).await;
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let limit = situation.patience() + BEYOND;
        let outcome = timeout(limit, perform(operation, &world)).await;
        outcomes.push(outcome.unwrap_or_else(|_| "HANGS".to_owned()));
    }
    outcomes.dedup();
    outcomes.join(", ")
}

/// Returns an operation's row of the table, by situation.
fn expected(operation: &str) -> Vec<(Situation, &'static str)> {
    let line = include_str!("table.txt")
        .lines()
        .find(|line| line.split('|').next().is_some_and(|name| name.trim() == operation));
    let cells = line.unwrap_or_else(|| panic!("no row of {operation}")).split('|').skip(1);
    SITUATIONS.into_iter().zip(cells.map(str::trim)).collect()
}

fn compare(operations: &[&'static str]) {
    for operation in operations {
        let (operation, row) = (*operation, expected(operation));
        assert_eq!(row.len(), SITUATIONS.len(), "{operation}");
        let mut found = Vec::new();
        for (situation, _) in &row {
            let situation = *situation;
            found.push(std::thread::spawn(move || run(twice(operation, situation))));
        }
        let found: Vec<_> = found.into_iter().map(|one| one.join().expect("no panic")).collect();
        let wrong: Vec<_> =
            row.iter().zip(&found).filter(|((_, expected), found)| found != expected).collect();
        assert!(wrong.is_empty(), "{operation}: {wrong:?}");
    }
}

/// Defines a test for each range of rows of the table, so that the ranges run in parallel.
macro_rules! rows {
    ($($test:ident: $from:literal..$to:literal;)*) => {
        $(#[test]
        fn $test() {
            compare(&OPERATIONS[$from..$to]);
        })*
        #[test]
        fn every_row_is_tested() {
            let mut rows: Vec<usize> = [$($from..$to),*].into_iter().flatten().collect();
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..OPERATIONS.len()));
        }
    };
}

rows! {
    what_a_client_is_asked: 0..6;
    what_a_lock_is_asked: 6..15;
    what_other_kinds_are_asked: 15..24;
    what_a_lease_is_asked: 24..33;
    the_end_of_a_client: 33..36;
}
