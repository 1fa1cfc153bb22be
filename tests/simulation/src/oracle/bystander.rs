//! Compares the state that clients and leases report with the packets on the network (see
//! `witness`).
//!
//! The comparison takes place just before a packet arrives at a client, because by then the client
//! has had time to process all earlier packets.

use zklock::{Client, ClientState, LeaseState};

use super::judge::{Granted, Hold, Oracle, says_held};
use crate::clients::Clients;
use crate::clock;
use crate::network::{self, CLIENTS, Id};
use crate::witness::Gap;

/// Tolerance in milliseconds, because some of the compared times are rounded to whole milliseconds.
const SLACK: u64 = 2;

/// Maximum interval in milliseconds at which a client without a connection tries a server.
const MAX_SEARCH_INTERVAL: u64 = 20_000;

impl Oracle {
    fn accuse(&mut self, hold: usize, what: &str) {
        let hold = &mut self.holds[hold];
        // Report each hold only once.
        if !std::mem::replace(&mut hold.accused, true) {
            let node = hold.node.clone();
            self.violation(format!("{node} {what}"));
        }
    }

    fn accuse_all(&mut self, wrong: impl Fn(&Self, &Hold) -> Option<String>) {
        let found: Vec<_> = self.holds.iter().map(|hold| wrong(self, hold)).collect();
        for (place, wrong) in found.into_iter().enumerate() {
            if let Some(wrong) = wrong {
                self.accuse(place, &wrong);
            }
        }
    }

    /// Checks a client's leases before a packet arrives at the client.
    pub fn before_arrival(&mut self, client: usize, connection: Id) {
        let now = clock::now();
        self.note_certainty(client);
        let vouched = network::with(|network| network.witness.vouched(connection));
        self.accuse_all(|oracle, hold| {
            let session = hold.lease.session_id();
            if of(hold) != Some(client) {
                return None;
            }
            let until = network::with(|network| network.witness.certain_until(session));
            let remaining = u64::try_from(hold.lease.remaining().as_millis()).unwrap_or(u64::MAX);
            if remaining > 0 && now + remaining > until + SLACK {
                let sure = until.saturating_sub(now);
                return Some(format!("has {remaining} ms left, and is certain for {sure} ms"));
            }
            if let Some(until) = oracle.sure_until(hold).filter(|_| remaining > 0 && !hold.is_limited())
                && now + remaining + SLACK < until
            {
                return Some(format!("has {remaining} ms left, but is certain for {} ms", until - now));
            }
            if oracle.knows_missing(hold) && says_held(&hold.lease) {
                return Some("is held, although its client was told that it does not exist".to_owned());
            }
            let sixth = network::with(|network| network.witness.timeout(session)) / 6;
            let known = vouched.is_some_and(|(since, of)| {
                of == session && since < now && oracle.has_run_since(client, since)
            });
            if known && remaining > sixth + SLACK && hold.lease.state() == LeaseState::Suspended {
                return Some("is suspended, although its session is proven".to_owned());
            }
            None
        });
    }

    /// Checks the state that a client reports just before a new connection opens. At this time, it
    /// must know that it has no connection.
    pub fn before_connection(&mut self, name: usize, client: &Client) {
        // Do not check a client that was stopped until shortly before. During the stop, all
        // attempts that need the connection can have ended, so the client is rightly idle.
        let since = clock::now().saturating_sub(SLACK + self.calm.soon());
        if client.state() == ClientState::Idle && self.has_run_since(name, since) {
            self.violation(format!("client {name} reports that it is idle, but looks for a server"));
        }
        // Do not check a client whose last connection failed after the handshake: the client crate
        // then reports that it is connected until it reaches the next server.
        let served = network::with(|network| network.witness.was_served(name));
        if !served || !self.has_run_since(name, clock::now().saturating_sub(SLACK)) {
            return;
        }
        if client.state() == ClientState::Connected {
            self.violation(format!("client {name} reports that it is connected, but is not"));
        }
        self.accuse_all(|_, hold| {
            let held = of(hold) == Some(name) && hold.lease.state() == LeaseState::Held;
            held.then(|| "is held, although its client is not connected".to_owned())
        });
    }

    /// Checks all clients. While no fault has an effect, a client that has had a session must be
    /// connected. A client that reports that it is connecting must try servers.
    pub fn judge_clients(&mut self, clients: &Clients) {
        let now = clock::now();
        for number in 0..clients.count() {
            let (name, client) = clients.named_now(number);
            let (state, begun) = (client.state(), client.session_id() != 0);
            let away = !matches!(state, ClientState::Connected | ClientState::Closed);
            let (left, replaced) = network::with(|network| (network.left(name), network.replaced(name)));
            let excused = left.is_some_and(|left| self.calm.may_be_away(left))
                || replaced.is_some_and(|at| self.calm.may_lack_session(at));
            if begun && away && !excused && self.calm.lasts_since(now) {
                self.violation(format!("client {name} reports that it is {state} although it can connect"));
            }
            let looked = network::with(|network| network.looked(name));
            let idle = looked
                .is_none_or(|looked| looked + MAX_SEARCH_INTERVAL < now && self.has_run_since(name, looked));
            if !begun && idle && state == ClientState::Connecting {
                self.violation(format!("client {name} reports that it is connecting, but tries no server"));
            }
        }
    }

    /// Returns a client that holds a lock.
    pub fn holder(&self, part: usize) -> Option<usize> {
        let held: Vec<_> = self.holds.iter().filter(|hold| says_held(&hold.lease)).collect();
        Some(of(held.get(part * held.len() / 100)?)? % CLIENTS)
    }

    /// Checks what the witness has observed since the last call.
    pub fn judge_observations(&mut self) {
        let news = network::with(|network| network.witness.take_observations());
        for wrong in news.wrong {
            self.violation(wrong);
        }
        for Gap { client, from, to } in news.gaps {
            self.accuse_all(|oracle, hold| {
                let all_along = of(hold) == Some(client) && hold.since <= from && says_held(&hold.lease);
                (all_along && oracle.has_run_since(client, from))
                    .then(|| format!("was not vouched for in {} ms", to - from))
            });
        }
        for (client, since, deleted) in news.deaf {
            // A client need not give up the session if the unanswered request was to delete another
            // contender's node (to break its lock): the call returns an error, and no waiter
            // depends on it.
            let breaks = deleted.is_some_and(|node| self.requests.is_broken(&node));
            if !breaks && self.has_run_since(client, since) {
                self.violation(format!(
                    "client {client} keeps a session in which the server replies only to pings"
                ));
            }
        }
        for (client, since) in news.foreign {
            if self.has_run_since(client, since) {
                self.violation(format!("client {client} keeps using a session that it did not ask for"));
            }
        }
        for client in news.anew {
            self.accuse_all(|_, hold| {
                let held = of(hold) == Some(client) && says_held(&hold.lease);
                held.then(|| "is held, although its client has given its session up".to_owned())
            });
        }
    }

    /// Returns the time until which a lease must report that it is held, as far as replies of the
    /// server prove that its session is alive. Returns `None` if the client might not have
    /// processed the last such reply.
    fn sure_until(&self, hold: &Hold) -> Option<u64> {
        let session = hold.lease.session_id();
        let (until, sure) = network::with(|network| network.witness.sure_until(session))?;
        let known = sure.known < clock::now() && self.has_run_since(of(hold)?, sure.runs);
        known.then_some(until)
    }

    /// Updates the time until which each lease of a client must report that it is held. Skips
    /// leases whose term has ended, because a later reply does not revive a lost lease.
    fn note_certainty(&mut self, client: usize) {
        let held = |hold: &Hold| of(hold) == Some(client) && !hold.lease.remaining().is_zero();
        let sure = |hold: &Hold| if held(hold) { self.sure_until(hold) } else { None };
        let sure: Vec<_> = self.holds.iter().map(sure).collect();
        for (hold, sure) in self.holds.iter_mut().zip(sure) {
            hold.sure = hold.sure.max(sure);
        }
    }

    /// Returns the minimum remaining term of the lease with this node, or `None` if the term might
    /// have ended.
    pub fn term_left(&self, node: &str) -> Option<u64> {
        let sure = self.holds.iter().find(|hold| hold.node == node)?.sure?;
        sure.checked_sub(clock::now()).filter(|left| *left > SLACK)
    }

    /// Returns `true` if the client has learned that the node of its hold no longer exists.
    fn knows_missing(&self, hold: &Hold) -> bool {
        let since = network::with(|network| network.witness.missing(&hold.node));
        since.zip(of(hold)).is_some_and(|(since, of)| since < clock::now() && self.has_run_since(of, since))
    }

    /// Returns `true` if the client with this name has not been stopped since that time.
    ///
    /// The client with the previous number must not have been stopped either. One of its contenders
    /// also uses this client and might have started tasks of this client. These tasks stop with the
    /// contender.
    fn has_run_since(&self, name: usize, then: u64) -> bool {
        let number = name % CLIENTS;
        let before = (number + self.clients - 1) % self.clients;
        [number, before].into_iter().all(|client| self.stopped.has_run_since(client, then))
    }

    /// Checks leases at the time of their grant, when their contender has just received them.
    pub fn judge_grants(&mut self, granted: &[Granted]) {
        let now = clock::now();
        if let [Granted { contender, place, node, .. }] = granted
            && self.calm.is_over()
        {
            self.prompt.is_served(*contender, place, node);
        }
        for place in 0..self.holds.len() {
            let hold = &self.holds[place];
            let session = hold.lease.session_id();
            let grace = u64::try_from(hold.grace.as_millis()).unwrap_or(u64::MAX);
            let Some(of) = of(hold).filter(|of| self.has_run_since(*of, now.saturating_sub(1))) else {
                continue;
            };
            if hold.since < now || !granted.iter().any(|one| one.node == hold.node) {
                continue;
            }
            let (timeout, until, proven) = network::with(|network| {
                let witness = &network.witness;
                (witness.timeout(session), witness.certain_until(session), witness.is_proven(of, session))
            });
            let sure = until.saturating_sub(now);
            if self.knows_missing(hold) {
                self.accuse(place, "is granted, although its client was told that it does not exist");
            } else if sure + SLACK < timeout / 6 + grace {
                self.accuse(place, &format!("is granted with {sure} ms of {timeout} ms left"));
            } else if !proven && !hold.lease.remaining().is_zero() {
                self.accuse(place, "is granted on a connection that has proven nothing");
            }
        }
    }
}

/// Returns the name of a hold's client.
fn of(hold: &Hold) -> Option<usize> {
    network::with(|network| network.witness.client(hold.lease.session_id()))
}
