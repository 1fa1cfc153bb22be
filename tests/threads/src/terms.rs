//! Tests of the term of a session's leases. One thread extends it when replies to heartbeats
//! arrive, while other threads read it.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use crate::every_interleaving;
use crate::runtime::clock::BootInstant;
use crate::session::term::Term;

const TIMEOUT: Duration = Duration::from_secs(6);

/// Two replies show at the same time that the session is alive. The term counts from the request
/// that was sent later, even if its reply is processed first.
pub fn an_older_proof_shortens_no_term() {
    every_interleaving(|| {
        let term = Arc::new(Term::new(TIMEOUT, 1));
        let (older, newer) = (BootInstant(1_000), BootInstant::now());
        let ours = Arc::clone(&term);
        let other = thread::spawn(move || ours.prove(older, 1));
        term.prove(newer, 1);
        other.join().expect("no panic");
        // The older proof is from the start of the machine.
        let since_start = newer.since(older);
        assert!(term.proof_age().is_some_and(|age| age < since_start / 2) && term.is_proven_on(1));
    });
}

/// A reply proves that the session is alive on a connection. A thread that sees this proof also
/// sees the new term.
pub fn a_proof_is_seen_with_its_connection() {
    every_interleaving(|| {
        let term = Arc::new(Term::new(TIMEOUT, 1));
        let sent = BootInstant(1_000);
        let ours = Arc::clone(&term);
        let proves = thread::spawn(move || ours.prove(sent, 1));
        if term.is_proven_on(1) {
            assert!(term.proof_age().is_some());
        }
        proves.join().expect("no panic");
        assert!(term.is_proven_on(1));
    });
}

/// A reply shows that the session is alive while the session moves to another connection. The reply
/// does not count for the new connection.
pub fn a_proof_against_a_move() {
    every_interleaving(|| {
        let term = Arc::new(Term::new(TIMEOUT, 1));
        let ours = Arc::clone(&term);
        let proves = thread::spawn(move || ours.prove(BootInstant(1_000), 1));
        term.moved(2);
        assert!(!term.is_proven_on(2));
        proves.join().expect("no panic");
        assert!(!term.is_proven_on(2) && !term.is_fresh_at(BootInstant(1_000), 2));
    });
}
