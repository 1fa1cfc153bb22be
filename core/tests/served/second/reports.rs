//! Tests of a client's reports about itself in every situation. Reading them repeatedly does not
//! change them.

use zklock::{Client, LeaseState, dump};

use super::Situation::{
    Broken, Closed, Closing, Connected, Cut, Draining, New, NewSession, NoSession, Reconnected, Refused,
    Silent, Unreachable,
};
use super::{SITUATIONS, Situation, World, run};

/// Returns a client's reports as one text, without durations, because these change with every read.
/// `earlier` is the id of an earlier session.
fn report(client: &Client, earlier: i64) -> String {
    let health = client.health();
    let session = match client.session_id() {
        0 => "none",
        id if id == earlier => "same",
        _ => "other",
    };
    assert_eq!((health.state, health.session_id), (client.state(), client.session_id()));
    assert_eq!(health.session_timeout, client.session_timeout());
    let holds: Vec<_> = health.holds.iter().map(|hold| format!("{} {}", hold.path, hold.state)).collect();
    let stats = client.stats();
    let server = if health.server.is_some() { "with" } else { "without" };
    let term = match (health.last_proof.is_some(), health.remaining.is_zero()) {
        (true, false) => "a term",
        (true, true) => "a term that is over",
        (false, true) => "no term",
        (false, false) => "a term without a proof",
    };
    assert!(health.waits.is_empty() && health.responsive);
    format!(
        "{}, session {session}, {server} server, {term}, holds {holds:?}; {} acquired, {} lost, {} sessions, {} back",
        client.state(),
        stats.acquisitions,
        stats.losses,
        stats.sessions,
        stats.reconnections
    )
}

fn expected(situation: Situation) -> &'static str {
    match situation {
        New | Unreachable | Refused => {
            "idle, session none, without server, no term, holds []; 0 acquired, 0 lost, 0 sessions, 0 back"
        }
        Connected | Silent | Draining => {
            "connected, session same, with server, a term, holds [\"/held held\"]; \
             1 acquired, 0 lost, 1 sessions, 0 back"
        }
        Reconnected => {
            "connected, session same, with server, a term, holds [\"/held held\"]; \
             1 acquired, 0 lost, 1 sessions, 1 back"
        }
        Broken => {
            "connected, session same, with server, a term, holds []; 1 acquired, 1 lost, 1 sessions, 0 back"
        }
        NewSession => {
            "connected, session other, with server, no term, holds []; 1 acquired, 1 lost, 2 sessions, 0 back"
        }
        Cut => {
            "suspended, session same, without server, a term, holds [\"/held suspended\"]; \
             1 acquired, 0 lost, 1 sessions, 0 back"
        }
        NoSession => {
            "connecting, session same, without server, no term, holds []; 1 acquired, 1 lost, 1 sessions, 0 back"
        }
        // Closing the client does not count as a loss.
        Closing | Closed => {
            "closed, session same, without server, no term, holds []; 1 acquired, 0 lost, 1 sessions, 0 back"
        }
    }
}

#[test]
fn repeated_reports_of_a_client_are_equal() {
    let judge = |situation: Situation| {
        run(async move {
            let world = World::reach(situation).await;
            let earlier = world.lease.as_ref().map_or(0, |lease| lease.session_id());
            let first = report(&world.client, earlier);
            assert_eq!(report(&world.client, earlier), first);
            if let Some(lease) = &world.lease {
                let holds = matches!(lease.state(), LeaseState::Held | LeaseState::Suspended);
                for _ in 0..2 {
                    assert_eq!(dump().contains(&lease.node()), holds, "{situation:?}: {}", dump());
                }
            }
            (first != expected(situation)).then(|| format!("{situation:?}: {first}"))
        })
    };
    let judging: Vec<_> = SITUATIONS.map(|situation| std::thread::spawn(move || judge(situation))).into();
    let wrong: Vec<_> = judging.into_iter().filter_map(|one| one.join().expect("no panic")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
