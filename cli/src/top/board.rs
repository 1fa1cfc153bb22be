//! State of all locks below a path, updated with each listing. Pure: the caller passes the current
//! time.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use zklock::ContenderInfo;
use zklock::internal::{Listing, NodeContent, about};

use crate::contender::Child;
use crate::top::directory::Look;

/// Period over which grants are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of directories. Further directories are not added.
pub(crate) const MOST: usize = 100_000;

/// The first contender in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) about: Option<ContenderInfo>,
    /// Data of the node if a client other than zklock wrote it.
    pub(crate) data: Vec<u8>,
    pub(crate) session_id: i64,
    pub(crate) token: i64,
    /// Creation time of the node by the servers' clock, in milliseconds since 1970.
    pub(crate) since: i64,
    /// Times of two listings: the last one in which this contender did not hold the lock, and the
    /// first one in which it did. `None` if it already held the lock in the first listing.
    pub(crate) granted: Option<(Instant, Instant)>,
}

/// State of one directory.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) look: Look,
    pub(crate) holder: Option<Holder>,
    /// Reason why the directory could not be read.
    pub(crate) problem: Option<String>,
    pub(crate) seen: Option<Instant>,
    /// Number of contenders that had left, with the time of each listing.
    samples: VecDeque<(Instant, u32)>,
    /// For children with ambiguous names: `true` if the child is a contender.
    asked: HashMap<String, bool>,
}

impl Entry {
    /// Returns the number of contenders per second that left the queue, or `None` before the second
    /// listing.
    pub(crate) fn rate(&self) -> Option<f64> {
        let ((began, first), (ended, last)) = (self.samples.front()?, self.samples.back()?);
        let time = ended.saturating_duration_since(*began).as_secs_f64();
        (time > 0.0).then(|| f64::from(last.saturating_sub(*first)) / time)
    }

    /// Returns `true` if the lock has contenders, or had some within the last seconds.
    pub(crate) fn is_busy(&self) -> bool {
        self.look.contenders > 0 || self.rate().is_some_and(|rate| rate > 0.0)
    }

    fn update(&mut self, look: Look, sight: Option<NodeContent>, now: Instant) {
        if look.czxid != self.look.czxid {
            // The directory was deleted and created again, so its count starts again.
            self.samples.clear();
        }
        self.samples.push_back((now, look.gone));
        // Keep one sample from before the window as the start of the count.
        while self.samples.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
        let known = self.holder.take().filter(|known| Some(&known.name) == look.head.as_ref());
        self.holder = known.or_else(|| {
            let (name, sight) = (look.head.clone()?, sight?);
            let granted = self.seen.map(|before| (before, now));
            let about = about(&sight.data);
            let data = if about.is_some() { Vec::new() } else { sight.data };
            let (session_id, token, since) = (sight.session_id, sight.czxid, sight.created);
            Some(Holder { name, about, data, session_id, token, since, granted })
        });
        self.problem = None;
        self.look = look;
        self.seen = Some(now);
    }
}

/// All known directories, by path.
#[derive(Debug, Default)]
pub(crate) struct Board {
    entries: BTreeMap<String, Entry>,
    /// Shortest time between two listings of one directory.
    pub(crate) interval: Duration,
}

impl Board {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, ..Self::default() }
    }

    /// Adds a directory unless it is already known; returns `true` if it is new.
    pub(crate) fn discover(&mut self, path: &str) -> bool {
        if self.entries.len() >= MOST || self.entries.contains_key(path) {
            return false;
        }
        self.entries.insert(path.to_owned(), Entry::default());
        true
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= MOST
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Returns the children with ambiguous names that have not been read yet. Only the content of
    /// such a node shows whether it is a contender.
    pub(crate) fn unknown(&self, path: &str, listing: &Listing) -> Vec<String> {
        let Some(entry) = self.entries.get(path) else { return Vec::new() };
        let unknown = |name: &&String| {
            matches!(Child::of(name, listing), Child::Ambiguous(_)) && !entry.asked.contains_key(*name)
        };
        listing.names.iter().filter(unknown).cloned().collect()
    }

    /// Records whether a child with an ambiguous name is a contender.
    pub(crate) fn answer(&mut self, path: &str, name: String, contends: bool) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.asked.insert(name, contends);
        }
    }

    /// Returns the first contender of a listing if it differs from the known holder and must be
    /// read. Returns `None` for the queue of a semaphore, because the screen does not show its
    /// first contender.
    pub(crate) fn new_head(&self, path: &str, listing: &Listing) -> Option<String> {
        let entry = self.entries.get(path)?;
        let head = self.look(path, listing).0.head?;
        let known = entry.holder.as_ref().is_some_and(|holder| holder.name == head);
        let shown = !(path.ends_with("/locks") && self.is_part(path));
        (shown && !known).then_some(head)
    }

    fn look(&self, path: &str, listing: &Listing) -> (Look, Vec<String>) {
        let asked = self.entries.get(path).map(|entry| &entry.asked);
        Look::of(listing, |name| asked?.get(name).copied())
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Records a listing. Returns the children that can have locks below them.
    pub(crate) fn update(
        &mut self,
        path: &str,
        listing: &Listing,
        sight: Option<NodeContent>,
        now: Instant,
    ) -> Vec<String> {
        let (look, inner) = self.look(path, listing);
        if let Some(entry) = self.entries.get_mut(path) {
            if entry.asked.len() > listing.names.len() {
                let still: HashSet<_> = listing.names.iter().collect();
                entry.asked.retain(|name, _| still.contains(name));
            }
            entry.update(look, sight, now);
        }
        inner
    }

    /// Removes a directory that no longer exists.
    pub(crate) fn forget(&mut self, path: &str) {
        self.entries.remove(path);
    }

    /// Records that a directory could not be read.
    pub(crate) fn refuse(&mut self, path: &str, problem: String, now: Instant) {
        if let Some(entry) = self.entries.get_mut(path) {
            *entry = Entry { problem: Some(problem), seen: Some(now), ..Entry::default() };
        }
    }

    /// Returns the part with this name of the semaphore at `path`.
    pub(crate) fn part(&self, path: &str, name: &str) -> Option<&Entry> {
        self.entries.get(&within(path, name))
    }

    /// Returns `true` if a directory is a part of a semaphore.
    pub(crate) fn is_part(&self, path: &str) -> bool {
        let Some((parent, "leases" | "locks")) = path.rsplit_once('/') else { return false };
        self.entries
            .get(if parent.is_empty() { "/" } else { parent })
            .is_some_and(|entry| entry.look.semaphore)
    }
}

/// Returns the path of a child.
pub(crate) fn within(path: &str, name: &str) -> String {
    if path == "/" { format!("/{name}") } else { format!("{path}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::tests::named;

    fn listing<T: ToString>(names: &[T], created: u32) -> Listing {
        Listing { names: names.iter().map(ToString::to_string).collect(), czxid: 5, created }
    }

    fn sight() -> NodeContent {
        NodeContent { data: b"10.0.0.1".to_vec(), czxid: 7, session_id: 9, created: 1000 }
    }

    #[test]
    fn turns_are_counted_by_who_has_left_not_by_who_was_seen() {
        let start = Instant::now();
        let mut board = Board::default();
        assert!(board.discover("/a") && !board.discover("/a"));
        board.update("/a", &listing(&[named("lock-", 1)], 2), Some(sight()), start);
        assert_eq!(board.get("/a").and_then(Entry::rate), None);
        board.update("/a", &listing::<&str>(&[], 102), None, start + Duration::from_secs(2));
        let rate = board.get("/a").and_then(Entry::rate).unwrap();
        assert!((rate - 50.5).abs() < 0.01, "101 in two seconds, of whom one look saw nobody: {rate}");
        // After ten seconds without a grant, the rate is zero.
        for after in [4, 8, 13, 16] {
            board.update("/a", &listing::<&str>(&[], 102), None, start + Duration::from_secs(after));
        }
        assert_eq!(board.get("/a").and_then(Entry::rate), Some(0.0));
        assert!(!board.get("/a").unwrap().is_busy());
    }

    #[test]
    fn a_hold_that_was_seen_to_begin_has_its_moment() {
        let start = Instant::now();
        let mut board = Board::default();
        board.discover("/a");
        let (first, second) = (named("lock-", 1), named("lock-", 2));
        board.update("/a", &listing(&[&first, &second], 2), Some(sight()), start);
        assert_eq!(board.get("/a").unwrap().holder.as_ref().unwrap().granted, None, "since when, who knows");
        let later = start + Duration::from_secs(1);
        assert_eq!(board.new_head("/a", &listing(&[&second], 2)), Some(second.clone()));
        board.update("/a", &listing(&[&second], 2), Some(sight()), later);
        let holder = board.get("/a").unwrap().holder.clone().unwrap();
        assert_eq!((&holder.name, holder.granted), (&second, Some((start, later))));
        // A later listing keeps the hold and sends no request.
        assert_eq!(board.new_head("/a", &listing(&[&second], 2)), None);
        board.update("/a", &listing(&[&second], 2), None, later + WINDOW);
        assert_eq!(board.get("/a").unwrap().holder, Some(holder));
    }

    #[test]
    fn an_ambiguous_child_is_read_once() {
        let mut board = Board::default();
        board.discover("/orders");
        let both = listing(&["10000000001", "10000000002"], 5);
        assert_eq!(board.unknown("/orders", &both), ["10000000001", "10000000002"]);
        board.answer("/orders", "10000000001".to_owned(), false);
        board.answer("/orders", "10000000002".to_owned(), true);
        assert_eq!(board.unknown("/orders", &both), [""; 0]);
        assert_eq!(board.new_head("/orders", &both).as_deref(), Some("10000000002"));
        assert_eq!(board.update("/orders", &both, Some(sight()), Instant::now()), ["10000000001"]);
        // The answer for a deleted child is dropped.
        board.update("/orders", &listing(&["10000000001"], 5), None, Instant::now());
        assert_eq!(board.unknown("/orders", &both), ["10000000002"]);
    }

    #[test]
    fn a_semaphore_has_parts() {
        let mut board = Board::default();
        for path in ["/locks", "/locks/s", "/locks/s/leases", "/locks/s/locks"] {
            board.discover(path);
        }
        board.update("/locks/s", &listing(&["leases", "locks"], 2), None, Instant::now());
        let queue = listing(&[named("lock-", 1)], 2);
        assert_eq!(board.new_head("/locks/s/leases", &queue), Some(named("lock-", 1)));
        assert_eq!(board.new_head("/locks/s/locks", &queue), None);
        assert!(board.is_part("/locks/s/leases") && board.is_part("/locks/s/locks"));
        assert!(!board.is_part("/locks") && !board.is_part("/locks/s"));
    }
}
