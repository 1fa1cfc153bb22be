//! Looks at the directories below a path one after the other, within a budget.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::internal::{Listing, NodeContent, list, look};
use zklock::queue::NodeName;
use zklock::{Client, ClientState, ErrorKind};

use crate::failure::Failure;
use crate::top::board::{Board, within};
use crate::top::rotation::{Budget, Rotation};

/// Looks that are under way at the same time.
const AT_ONCE: usize = 16;

/// The time over which requests are counted.
const RECENT: Duration = Duration::from_secs(5);

/// What the survey knows, and what it does next.
pub(crate) struct Survey {
    client: Client,
    root: String,
    interval: Duration,
    pub(crate) board: Board,
    rotation: Rotation,
    budget: Budget,
    visits: JoinSet<Visit>,
    /// When how many requests were sent.
    sent: VecDeque<(Instant, u32)>,
    /// Since when no server has answered.
    silent: Option<Instant>,
}

/// One look at a directory.
struct Visit {
    path: String,
    outcome: zklock::Result<Option<(Listing, Option<NodeContent>)>>,
    requests: u32,
}

/// Lists a directory, and reads who is first in it, unless that is known.
async fn visit(client: Client, path: String, known: Option<String>) -> Visit {
    let mut requests = 1;
    let outcome = async {
        let Some(listing) = list(&client, &path).await? else { return Ok(None) };
        let head = listing.names.iter().filter_map(|name| NodeName::parse(name)).min();
        let Some(head) = head.filter(|head| known.as_deref() != Some(head.as_str())) else {
            return Ok(Some((listing, None)));
        };
        requests += 1;
        let sight = match look(&client, &within(&path, head.as_str())).await {
            // Who may not be read holds all the same.
            Err(error) if error.kind() == ErrorKind::AuthFailed => None,
            sight => sight?,
        };
        Ok(Some((listing, sight)))
    }
    .await;
    Visit { path, outcome, requests }
}

impl Survey {
    pub(crate) fn new(client: Client, root: &str, interval: Duration, per_second: u32) -> Self {
        let now = Instant::now();
        let mut survey = Self {
            client,
            root: root.to_owned(),
            interval,
            board: Board::default(),
            rotation: Rotation::default(),
            budget: Budget::new(per_second, now),
            visits: JoinSet::new(),
            sent: VecDeque::new(),
            silent: None,
        };
        survey.discover(root);
        survey
    }

    fn discover(&mut self, path: &str) {
        // What ZooKeeper keeps there has no locks.
        if path != "/zookeeper" && self.board.discover(path) {
            self.rotation.discover(path.to_owned());
        }
    }

    /// Whether every directory that is known was looked at.
    pub(crate) fn is_complete(&self) -> bool {
        !self.rotation.has_fresh() && self.visits.is_empty()
    }

    /// For how long no server has answered.
    pub(crate) fn silent(&mut self) -> Option<Duration> {
        if self.client.state() == ClientState::Connected {
            self.silent = None;
        } else {
            self.silent.get_or_insert_with(Instant::now);
        }
        self.silent.map(|since| since.elapsed())
    }

    /// Requests a second, of late.
    pub(crate) fn requests(&mut self) -> f64 {
        let now = Instant::now();
        while self.sent.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > RECENT) {
            self.sent.pop_front();
        }
        let all: u32 = self.sent.iter().map(|(_, requests)| requests).sum();
        f64::from(all) / RECENT.as_secs_f64()
    }

    /// Looks at what is due, and returns when something new is known, or at `until`. Cancel safe.
    pub(crate) async fn go_on(&mut self, until: Instant) -> Result<(), Failure> {
        loop {
            let mut pause = until.saturating_duration_since(Instant::now());
            if self.silent().is_none() {
                pause = pause.min(self.begin());
            }
            tokio::select! {
                Some(visited) = self.visits.join_next() => {
                    let visited = visited.map_err(|error| Failure::system("cannot look", &error))?;
                    self.learn(visited)?;
                }
                () = tokio::time::sleep(pause) => {}
            }
            if Instant::now() >= until || self.is_complete() {
                return Ok(());
            }
        }
    }

    /// Begins as many looks as may be; returns when to try again.
    fn begin(&mut self) -> Duration {
        while self.visits.len() < AT_ONCE {
            let now = Instant::now();
            let wait = self.budget.wait(now);
            if !wait.is_zero() {
                return wait;
            }
            let Some(path) = self.rotation.next(now, self.interval) else { break };
            let known = self.board.get(&path).and_then(|entry| entry.holder.as_ref());
            let known = known.map(|holder| holder.name.clone());
            // What the answer brings is added when it is there.
            self.budget.spend(1, 0);
            self.visits.spawn(visit(self.client.clone(), path, known));
        }
        self.interval.min(Duration::from_millis(100))
    }

    fn learn(&mut self, visit: Visit) -> Result<(), Failure> {
        let Visit { path, outcome, requests } = visit;
        let now = Instant::now();
        self.sent.push_back((now, requests));
        let names = match &outcome {
            Ok(Some((listing, _))) => listing.names.len(),
            _ => 0,
        };
        self.budget.spend(requests - 1, names);
        match outcome {
            Ok(Some((listing, sight))) => {
                for name in self.board.update(&path, &listing, sight, now) {
                    self.discover(&within(&path, &name));
                }
            }
            // The path itself may come, and come again.
            Ok(None) if path == self.root => drop(self.board.update(&path, &Listing::default(), None, now)),
            Ok(None) => {
                self.board.forget(&path);
                return Ok(());
            }
            Err(error) => match error.kind() {
                // What was known stays; the next look will tell.
                ErrorKind::ConnectionFailed => {
                    if self.board.get(&path).is_some_and(|entry| entry.seen.is_none()) {
                        self.rotation.discover(path);
                        return Ok(());
                    }
                }
                ErrorKind::ClientClosed | ErrorKind::Forked => return Err(error.into()),
                _ if path == self.root => return Err(error.into()),
                _ => self.board.refuse(&path, error.to_string(), now),
            },
        }
        let busy = self.board.get(&path).is_some_and(crate::top::board::Entry::is_busy);
        self.rotation.put_back(path, busy, now);
        Ok(())
    }
}
