//! State of all locks below a path, updated with each listing. Sends no requests, and receives the
//! current time from the caller.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use zklock::ContenderInfo;
use zklock::internal::{Listing, NodeContent, about};

use crate::contender::Child;
use crate::top::directory::DirectorySummary;

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
    /// The grant was between these two times: the last listing in which this contender did not hold
    /// the lock, and the first one in which it did. `None` if it already held the lock in our first
    /// listing.
    pub(crate) granted: Option<(Instant, Instant)>,
}

/// State of one directory.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) summary: DirectorySummary,
    pub(crate) holder: Option<Holder>,
    /// Reason why the directory could not be read.
    pub(crate) problem: Option<String>,
    pub(crate) seen: Option<Instant>,
    /// Samples for the rate: the time of a listing, and the number of contenders that had left the
    /// queue by then.
    samples: VecDeque<(Instant, u32)>,
    /// For children with ambiguous names: `true` if the child is a contender.
    ambiguous: HashMap<String, bool>,
}

impl Entry {
    /// Returns the number of contenders per second that left the queue, or `None` before the second
    /// listing.
    pub(crate) fn rate(&self) -> Option<f64> {
        let ((began, first), (ended, last)) = (self.samples.front()?, self.samples.back()?);
        let time = ended.saturating_duration_since(*began).as_secs_f64();
        (time > 0.0).then(|| f64::from(last.saturating_sub(*first)) / time)
    }

    /// Returns `true` if the lock has contenders, or had contenders a moment ago.
    pub(crate) fn is_busy(&self) -> bool {
        self.summary.contenders > 0 || self.rate().is_some_and(|rate| rate > 0.0)
    }

    fn update(&mut self, summary: DirectorySummary, content: Option<NodeContent>, now: Instant) {
        if summary.czxid != self.summary.czxid {
            // The directory was deleted and created again, so its count starts again.
            self.samples.clear();
        }
        self.samples.push_back((now, summary.gone));
        // Keep one sample from before the window as the start of the count.
        while self.samples.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
        let known = self.holder.take().filter(|known| Some(&known.name) == summary.head.as_ref());
        self.holder = known.or_else(|| {
            let (name, content) = (summary.head.clone()?, content?);
            let granted = self.seen.map(|before| (before, now));
            let about = about(&content.data);
            let data = if about.is_some() { Vec::new() } else { content.data };
            let (session_id, token, since) = (content.session_id, content.czxid, content.created);
            Some(Holder { name, about, data, session_id, token, since, granted })
        });
        self.problem = None;
        self.summary = summary;
        self.seen = Some(now);
    }
}

/// All known directories, by path.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    entries: BTreeMap<String, Entry>,
    /// Shortest time between two listings of one directory.
    pub(crate) interval: Duration,
}

impl LockTable {
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
    pub(crate) fn unread_children(&self, path: &str, listing: &Listing) -> Vec<String> {
        let Some(entry) = self.entries.get(path) else { return Vec::new() };
        let is_unread = |name: &&String| {
            matches!(Child::of(name, listing), Child::Ambiguous(_)) && !entry.ambiguous.contains_key(*name)
        };
        listing.names.iter().filter(is_unread).cloned().collect()
    }

    /// Records whether a child with an ambiguous name is a contender.
    pub(crate) fn set_contender(&mut self, path: &str, name: String, contends: bool) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.ambiguous.insert(name, contends);
        }
    }

    /// Returns the first contender of a listing if its data has not been read yet. Returns `None`
    /// for the queue of a semaphore, because the screen does not show its first contender.
    pub(crate) fn unread_first_contender(&self, path: &str, listing: &Listing) -> Option<String> {
        let entry = self.entries.get(path)?;
        let head = self.summarize(path, listing).0.head?;
        let known = entry.holder.as_ref().is_some_and(|holder| holder.name == head);
        let shown = !(path.ends_with("/locks") && self.is_part(path));
        (shown && !known).then_some(head)
    }

    fn summarize(&self, path: &str, listing: &Listing) -> (DirectorySummary, Vec<String>) {
        let ambiguous = self.entries.get(path).map(|entry| &entry.ambiguous);
        DirectorySummary::of(listing, |name| ambiguous?.get(name).copied())
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Records a listing. Returns the children that can have locks below them.
    pub(crate) fn update(
        &mut self,
        path: &str,
        listing: &Listing,
        content: Option<NodeContent>,
        now: Instant,
    ) -> Vec<String> {
        let (summary, inner) = self.summarize(path, listing);
        if let Some(entry) = self.entries.get_mut(path) {
            if entry.ambiguous.len() > listing.names.len() {
                let still: HashSet<_> = listing.names.iter().collect();
                entry.ambiguous.retain(|name, _| still.contains(name));
            }
            entry.update(summary, content, now);
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
            .is_some_and(|entry| entry.summary.semaphore)
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

    fn content() -> NodeContent {
        NodeContent { data: b"10.0.0.1".to_vec(), czxid: 7, session_id: 9, created: 1000 }
    }

    #[test]
    fn turns_are_counted_by_who_has_left_not_by_who_was_seen() {
        let start = Instant::now();
        let mut lock_table = LockTable::default();
        assert!(lock_table.discover("/a") && !lock_table.discover("/a"));
        lock_table.update("/a", &listing(&[named("lock-", 1)], 2), Some(content()), start);
        assert_eq!(lock_table.get("/a").and_then(Entry::rate), None);
        lock_table.update("/a", &listing::<&str>(&[], 102), None, start + Duration::from_secs(2));
        let rate = lock_table.get("/a").and_then(Entry::rate).unwrap();
        assert!((rate - 50.5).abs() < 0.01, "101 in two seconds, of whom one look saw nobody: {rate}");
        // After ten seconds without a grant, the rate is zero.
        for after in [4, 8, 13, 16] {
            lock_table.update("/a", &listing::<&str>(&[], 102), None, start + Duration::from_secs(after));
        }
        assert_eq!(lock_table.get("/a").and_then(Entry::rate), Some(0.0));
        assert!(!lock_table.get("/a").unwrap().is_busy());
    }

    #[test]
    fn a_hold_that_was_seen_to_begin_has_its_moment() {
        let start = Instant::now();
        let mut lock_table = LockTable::default();
        lock_table.discover("/a");
        let (first, second) = (named("lock-", 1), named("lock-", 2));
        lock_table.update("/a", &listing(&[&first, &second], 2), Some(content()), start);
        assert_eq!(
            lock_table.get("/a").unwrap().holder.as_ref().unwrap().granted,
            None,
            "since when, who knows"
        );
        let later = start + Duration::from_secs(1);
        assert_eq!(lock_table.unread_first_contender("/a", &listing(&[&second], 2)), Some(second.clone()));
        lock_table.update("/a", &listing(&[&second], 2), Some(content()), later);
        let holder = lock_table.get("/a").unwrap().holder.clone().unwrap();
        assert_eq!((&holder.name, holder.granted), (&second, Some((start, later))));
        // A later listing keeps the hold and sends no request.
        assert_eq!(lock_table.unread_first_contender("/a", &listing(&[&second], 2)), None);
        lock_table.update("/a", &listing(&[&second], 2), None, later + WINDOW);
        assert_eq!(lock_table.get("/a").unwrap().holder, Some(holder));
    }

    #[test]
    fn an_ambiguous_child_is_read_once() {
        let mut lock_table = LockTable::default();
        lock_table.discover("/orders");
        let both = listing(&["10000000001", "10000000002"], 5);
        assert_eq!(lock_table.unread_children("/orders", &both), ["10000000001", "10000000002"]);
        lock_table.set_contender("/orders", "10000000001".to_owned(), false);
        lock_table.set_contender("/orders", "10000000002".to_owned(), true);
        assert_eq!(lock_table.unread_children("/orders", &both), [""; 0]);
        assert_eq!(lock_table.unread_first_contender("/orders", &both).as_deref(), Some("10000000002"));
        assert_eq!(lock_table.update("/orders", &both, Some(content()), Instant::now()), ["10000000001"]);
        // The answer for a deleted child is dropped.
        lock_table.update("/orders", &listing(&["10000000001"], 5), None, Instant::now());
        assert_eq!(lock_table.unread_children("/orders", &both), ["10000000002"]);
    }

    #[test]
    fn a_semaphore_has_parts() {
        let mut lock_table = LockTable::default();
        for path in ["/locks", "/locks/s", "/locks/s/leases", "/locks/s/locks"] {
            lock_table.discover(path);
        }
        lock_table.update("/locks/s", &listing(&["leases", "locks"], 2), None, Instant::now());
        let queue = listing(&[named("lock-", 1)], 2);
        assert_eq!(lock_table.unread_first_contender("/locks/s/leases", &queue), Some(named("lock-", 1)));
        assert_eq!(lock_table.unread_first_contender("/locks/s/locks", &queue), None);
        assert!(lock_table.is_part("/locks/s/leases") && lock_table.is_part("/locks/s/locks"));
        assert!(!lock_table.is_part("/locks") && !lock_table.is_part("/locks/s"));
    }
}
