//! Reads the directories below a path in rotation, within a request budget.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::internal::{Listing, NodeContent, list, look};
use zklock::{Client, ClientState, Error, ErrorKind};

use crate::failure::Failure;
use crate::top::lock_table::{LockTable, within};
use crate::top::rotation::{Budget, Rotation};

/// Maximum number of concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Period over which the request rate is measured.
const RECENT: Duration = Duration::from_secs(5);

/// State of the survey: the results so far, and the pending requests.
pub(crate) struct Survey {
    client: Client,
    root: String,
    interval: Duration,
    pub(crate) lock_table: LockTable,
    rotation: Rotation,
    budget: Budget,
    visits: JoinSet<Visit>,
    /// True if each directory is listed only once.
    once: bool,
    /// Children that must be read because their names are ambiguous.
    ambiguous_children: VecDeque<(String, String)>,
    /// True if the last request was for such a child.
    last_was_child: bool,
    pending_listings: HashMap<String, PendingListing>,
    /// Times of recent requests.
    sent: VecDeque<Instant>,
    /// Time at which the servers stopped replying, if they have.
    silent: Option<Instant>,
}

/// A request and its result.
struct Visit {
    path: String,
    answer: Answer,
}

enum Answer {
    Listed(zklock::Result<Option<Listing>>),
    /// A child with an ambiguous name.
    ChildRead(String, zklock::Result<Option<NodeContent>>),
    /// The first contender of a directory, with the directory's listing.
    Read(Listing, zklock::Result<Option<NodeContent>>),
}

/// A listing with ambiguous names, and the number of children with such names that must still be
/// read.
struct PendingListing {
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
            lock_table: LockTable::new(interval),
            rotation: Rotation::default(),
            budget: Budget::new(per_second, now),
            visits: JoinSet::new(),
            once,
            ambiguous_children: VecDeque::new(),
            last_was_child: false,
            pending_listings: HashMap::new(),
            sent: VecDeque::new(),
            silent: None,
        };
        survey.discover(root);
        survey
    }

    fn discover(&mut self, path: &str) {
        // ZooKeeper's own nodes contain no locks.
        if path != "/zookeeper" && self.lock_table.discover(path) {
            self.rotation.discover(path.to_owned());
        }
    }

    /// Returns `true` if every known directory was read.
    pub(crate) fn is_complete(&self) -> bool {
        !self.rotation.has_fresh() && self.visits.is_empty() && self.ambiguous_children.is_empty()
    }

    /// Returns the time since the last reply of a server, or `None` while the client is connected.
    pub(crate) fn silent(&mut self) -> Option<Duration> {
        if self.client.state() == ClientState::Connected {
            self.silent = None;
        } else {
            self.silent.get_or_insert_with(Instant::now);
        }
        self.silent.map(|since| since.elapsed())
    }

    /// Returns the recent number of requests per second.
    pub(crate) fn requests(&mut self) -> f64 {
        let now = Instant::now();
        while self.sent.front().is_some_and(|at| now.saturating_duration_since(*at) > RECENT) {
            self.sent.pop_front();
        }
        f64::from(u32::try_from(self.sent.len()).unwrap_or(u32::MAX)) / RECENT.as_secs_f64()
    }

    /// Reads the directories that are due. Returns when every known directory has been read, or at
    /// `until`. Cancel safe.
    pub(crate) async fn run_until(&mut self, until: Instant) -> Result<(), Failure> {
        loop {
            let mut pause = until.saturating_duration_since(Instant::now());
            if self.silent().is_none() {
                pause = pause.min(self.send_requests());
            }
            tokio::select! {
                Some(visited) = self.visits.join_next() => {
                    let visited = visited.map_err(|error| Failure::system("cannot read the locks", &error))?;
                    self.handle_reply(visited)?;
                }
                () = tokio::time::sleep(pause) => {}
            }
            if Instant::now() >= until || self.is_complete() {
                return Ok(());
            }
        }
    }

    /// Starts as many requests as the limits permit; returns the time until the next try.
    fn send_requests(&mut self) -> Duration {
        while self.visits.len() < MAX_CONCURRENT_REQUESTS {
            let now = Instant::now();
            let wait = self.budget.wait(now);
            if !wait.is_zero() {
                return wait;
            }
            let client = self.client.clone();
            // Alternate between directories and children with ambiguous names. Otherwise many such
            // children could delay the directories.
            self.last_was_child = !self.last_was_child && !self.ambiguous_children.is_empty();
            let next = if self.last_was_child { None } else { self.rotation.next(now, self.interval) };
            if let Some(path) = next {
                self.send_request(async move {
                    let listed = list(&client, &path).await;
                    Visit { path, answer: Answer::Listed(listed) }
                });
            } else if let Some((path, name)) = self.ambiguous_children.pop_front() {
                self.send_request(async move {
                    let content = look(&client, &within(&path, &name)).await;
                    Visit { path, answer: Answer::ChildRead(name, content) }
                });
            } else {
                break;
            }
        }
        self.interval.min(Duration::from_millis(100))
    }

    /// Sends a request.
    fn send_request(&mut self, request: impl Future<Output = Visit> + Send + 'static) {
        self.budget.spend(1, 0);
        self.sent.push_back(Instant::now());
        self.visits.spawn(request);
    }

    fn handle_reply(&mut self, visit: Visit) -> Result<(), Failure> {
        let Visit { path, answer } = visit;
        match answer {
            Answer::Listed(Ok(Some(listing))) => {
                self.budget.spend(0, listing.names.len());
                let unknown = self.lock_table.unread_children(&path, &listing);
                if unknown.is_empty() {
                    self.read_first_contender(path, listing);
                } else {
                    let left = unknown.len();
                    self.ambiguous_children.extend(unknown.into_iter().map(|name| (path.clone(), name)));
                    self.pending_listings.insert(path, PendingListing { listing, left });
                }
            }
            // Do not forget the root path if it does not exist, because it can be created later.
            Answer::Listed(Ok(None)) if path == self.root => self.complete(path, &Listing::default(), None),
            Answer::Listed(Ok(None)) => self.lock_table.forget(&path),
            Answer::ChildRead(name, content) => match content {
                Ok(content) => {
                    if let Some(content) = content {
                        self.lock_table.set_contender(&path, name, content.session_id != 0);
                    }
                    self.note_child_read(path);
                }
                // Count an unreadable child as a contender, as waiters do.
                Err(error) if error.kind() == ErrorKind::AuthFailed => {
                    self.lock_table.set_contender(&path, name, true);
                    self.note_child_read(path);
                }
                // The first failed child makes the whole directory fail. Failures of its other
                // children are ignored.
                Err(error) if self.pending_listings.remove(&path).is_some() => {
                    return self.failed(path, error);
                }
                Err(_) => {}
            },
            Answer::Read(listing, content) => match content {
                Ok(content) => self.complete(path, &listing, content),
                // The first contender holds the lock even if its data is unreadable, so show the
                // lock as held.
                Err(error) if error.kind() == ErrorKind::AuthFailed => self.complete(path, &listing, None),
                Err(error) => return self.failed(path, error),
            },
            Answer::Listed(Err(error)) => return self.failed(path, error),
        }
        Ok(())
    }

    /// Counts a child as read. After the last one, the listing is complete.
    fn note_child_read(&mut self, path: String) {
        let Some(pending_listings) = self.pending_listings.get_mut(&path) else { return };
        pending_listings.left -= 1;
        if pending_listings.left == 0
            && let Some(PendingListing { listing, .. }) = self.pending_listings.remove(&path)
        {
            self.read_first_contender(path, listing);
        }
    }

    /// Handles a listing in which no ambiguous name is left to resolve. Reads the first contender
    /// unless it is already known.
    fn read_first_contender(&mut self, path: String, listing: Listing) {
        let Some(head) = self.lock_table.unread_first_contender(&path, &listing) else {
            return self.complete(path, &listing, None);
        };
        let (client, node) = (self.client.clone(), within(&path, &head));
        self.send_request(async move {
            Visit { path, answer: Answer::Read(listing, look(&client, &node).await) }
        });
    }

    /// Records a completed survey of a directory.
    fn complete(&mut self, path: String, listing: &Listing, content: Option<NodeContent>) {
        let now = Instant::now();
        for name in self.lock_table.update(&path, listing, content, now) {
            self.discover(&within(&path, &name));
        }
        self.put_back(path, now);
    }

    fn failed(&mut self, path: String, error: Error) -> Result<(), Failure> {
        let now = Instant::now();
        self.ambiguous_children.retain(|(other, _)| *other != path);
        match error.kind() {
            // Keep the last results. The next survey will show whether they changed.
            ErrorKind::ConnectionFailed => {
                if self.lock_table.get(&path).is_some_and(|entry| entry.seen.is_none()) {
                    self.rotation.discover(path);
                    return Ok(());
                }
            }
            ErrorKind::ClientClosed | ErrorKind::Forked => return Err(error.into()),
            _ if path == self.root => return Err(error.into()),
            _ => self.lock_table.refuse(&path, error.to_string(), now),
        }
        self.put_back(path, now);
        Ok(())
    }

    fn put_back(&mut self, path: String, now: Instant) {
        if self.once {
            return;
        }
        let busy = self.lock_table.get(&path).is_some_and(crate::top::lock_table::Entry::is_busy);
        self.rotation.put_back(path, busy, now);
    }
}
