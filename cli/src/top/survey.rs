//! Looks at the directories below a path one after the other, within a budget.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::internal::{Listing, NodeContent, list, look};
use zklock::{Client, ClientState, Error, ErrorKind};

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
    /// Whether each directory is looked at once only.
    once: bool,
    /// Children to read, because their names are ambiguous.
    questions: VecDeque<(String, String)>,
    /// Whether the last request was for one of them.
    asks: bool,
    unclear: HashMap<String, Unclear>,
    /// When requests were sent.
    sent: VecDeque<Instant>,
    /// Since when no server has answered.
    silent: Option<Instant>,
}

/// A request, and its answer.
struct Visit {
    path: String,
    answer: Answer,
}

enum Answer {
    Listed(zklock::Result<Option<Listing>>),
    /// A child whose name is ambiguous.
    Asked(String, zklock::Result<Option<NodeContent>>),
    /// The first in the queue of a directory with this listing.
    Read(Listing, zklock::Result<Option<NodeContent>>),
}

/// A listing with names that are ambiguous: how many of them were not read yet.
struct Unclear {
    listing: Listing,
    left: usize,
}

impl Survey {
    pub(crate) fn new(client: Client, root: &str, interval: Duration, per_second: u32, once: bool) -> Self {
        let now = Instant::now();
        let mut survey = Self {
            client,
            root: root.to_owned(),
            interval,
            board: Board::new(interval),
            rotation: Rotation::default(),
            budget: Budget::new(per_second, now),
            visits: JoinSet::new(),
            once,
            questions: VecDeque::new(),
            asks: false,
            unclear: HashMap::new(),
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
        !self.rotation.has_fresh() && self.visits.is_empty() && self.questions.is_empty()
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
        while self.sent.front().is_some_and(|at| now.saturating_duration_since(*at) > RECENT) {
            self.sent.pop_front();
        }
        f64::from(u32::try_from(self.sent.len()).unwrap_or(u32::MAX)) / RECENT.as_secs_f64()
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
            let client = self.client.clone();
            // Directories have every other turn, however many children have to be read.
            self.asks = !self.asks && !self.questions.is_empty();
            let next = if self.asks { None } else { self.rotation.next(now, self.interval) };
            if let Some(path) = next {
                self.start(async move {
                    let listed = list(&client, &path).await;
                    Visit { path, answer: Answer::Listed(listed) }
                });
            } else if let Some((path, name)) = self.questions.pop_front() {
                self.start(async move {
                    let content = look(&client, &within(&path, &name)).await;
                    Visit { path, answer: Answer::Asked(name, content) }
                });
            } else {
                break;
            }
        }
        self.interval.min(Duration::from_millis(100))
    }

    /// Sends a request.
    fn start(&mut self, request: impl Future<Output = Visit> + Send + 'static) {
        self.budget.spend(1, 0);
        self.sent.push_back(Instant::now());
        self.visits.spawn(request);
    }

    fn learn(&mut self, visit: Visit) -> Result<(), Failure> {
        let Visit { path, answer } = visit;
        match answer {
            Answer::Listed(Ok(Some(listing))) => {
                self.budget.spend(0, listing.names.len());
                let unknown = self.board.unknown(&path, &listing);
                if unknown.is_empty() {
                    self.listed(path, listing);
                } else {
                    let left = unknown.len();
                    self.questions.extend(unknown.into_iter().map(|name| (path.clone(), name)));
                    self.unclear.insert(path, Unclear { listing, left });
                }
            }
            // The path itself may come, and come again.
            Answer::Listed(Ok(None)) if path == self.root => self.complete(path, &Listing::default(), None),
            Answer::Listed(Ok(None)) => self.board.forget(&path),
            Answer::Asked(name, content) => match content {
                Ok(content) => {
                    if let Some(content) = content {
                        self.board.answer(&path, name, content.session_id != 0);
                    }
                    self.asked(path);
                }
                // A child that may not be read counts, as it does for those that wait.
                Err(error) if error.kind() == ErrorKind::AuthFailed => {
                    self.board.answer(&path, name, true);
                    self.asked(path);
                }
                // The first failure ends the look; others may follow.
                Err(error) if self.unclear.remove(&path).is_some() => return self.failed(path, error),
                Err(_) => {}
            },
            Answer::Read(listing, content) => match content {
                Ok(content) => self.complete(path, &listing, content),
                // A contender that may not be read holds all the same.
                Err(error) if error.kind() == ErrorKind::AuthFailed => self.complete(path, &listing, None),
                Err(error) => return self.failed(path, error),
            },
            Answer::Listed(Err(error)) => return self.failed(path, error),
        }
        Ok(())
    }

    /// A child of a directory was read. The last of them makes its listing clear.
    fn asked(&mut self, path: String) {
        let Some(unclear) = self.unclear.get_mut(&path) else { return };
        unclear.left -= 1;
        if unclear.left == 0
            && let Some(Unclear { listing, .. }) = self.unclear.remove(&path)
        {
            self.listed(path, listing);
        }
    }

    /// A directory was listed, and what its names mean is known. Reads who is first in it, unless that is known.
    fn listed(&mut self, path: String, listing: Listing) {
        let Some(head) = self.board.new_head(&path, &listing) else {
            return self.complete(path, &listing, None);
        };
        let (client, node) = (self.client.clone(), within(&path, &head));
        self.start(async move { Visit { path, answer: Answer::Read(listing, look(&client, &node).await) } });
    }

    /// All that a look at a directory shows is there.
    fn complete(&mut self, path: String, listing: &Listing, content: Option<NodeContent>) {
        let now = Instant::now();
        for name in self.board.update(&path, listing, content, now) {
            self.discover(&within(&path, &name));
        }
        self.put_back(path, now);
    }

    fn failed(&mut self, path: String, error: Error) -> Result<(), Failure> {
        let now = Instant::now();
        self.questions.retain(|(other, _)| *other != path);
        match error.kind() {
            // The last findings stay; the next look will tell.
            ErrorKind::ConnectionFailed => {
                if self.board.get(&path).is_some_and(|entry| entry.seen.is_none()) {
                    self.rotation.discover(path);
                    return Ok(());
                }
            }
            ErrorKind::ClientClosed | ErrorKind::Forked => return Err(error.into()),
            _ if path == self.root => return Err(error.into()),
            _ => self.board.refuse(&path, error.to_string(), now),
        }
        self.put_back(path, now);
        Ok(())
    }

    fn put_back(&mut self, path: String, now: Instant) {
        if self.once {
            return;
        }
        let busy = self.board.get(&path).is_some_and(crate::top::board::Entry::is_busy);
        self.rotation.put_back(path, busy, now);
    }
}
