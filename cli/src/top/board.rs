//! All that is known of the locks below a path, from one look to the next. Pure: moments are given.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use zklock::ContenderInfo;
use zklock::internal::{Listing, NodeContent, about};

use crate::contender::Child;
use crate::top::directory::Look;

/// The time over which turns are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Where more were found, no more are added.
pub(crate) const MOST: usize = 100_000;

/// Who is first in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) about: Option<ContenderInfo>,
    /// What others than zklock write.
    pub(crate) data: Vec<u8>,
    pub(crate) session_id: i64,
    pub(crate) token: i64,
    /// When its node was created, by the servers' clock: milliseconds since 1970.
    pub(crate) since: i64,
    /// When somebody else was last seen to hold, or nobody, and when this one was first seen to; unless it was so from
    /// the first look on.
    pub(crate) granted: Option<(Instant, Instant)>,
}

/// What is known of a directory.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) look: Look,
    pub(crate) holder: Option<Holder>,
    /// Why nothing is known.
    pub(crate) problem: Option<String>,
    pub(crate) seen: Option<Instant>,
    /// How many had left at what moment.
    samples: VecDeque<(Instant, u32)>,
    /// Of the children whose names are ambiguous, whether they contend.
    asked: HashMap<String, bool>,
}

impl Entry {
    /// How many got through the queue a second; nothing before the second look.
    pub(crate) fn rate(&self) -> Option<f64> {
        let ((began, first), (ended, last)) = (self.samples.front()?, self.samples.back()?);
        let time = ended.saturating_duration_since(*began).as_secs_f64();
        (time > 0.0).then(|| f64::from(last.saturating_sub(*first)) / time)
    }

    /// Whether somebody holds or waits, or did a moment ago.
    pub(crate) fn is_busy(&self) -> bool {
        self.look.contenders > 0 || self.rate().is_some_and(|rate| rate > 0.0)
    }

    fn update(&mut self, look: Look, sight: Option<NodeContent>, now: Instant) {
        if look.czxid != self.look.czxid {
            // Another directory of the same name: its count began again.
            self.samples.clear();
        }
        self.samples.push_back((now, look.gone));
        // The oldest sample is the last one from before the window.
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

/// All directories by their paths.
#[derive(Debug, Default)]
pub(crate) struct Board {
    entries: BTreeMap<String, Entry>,
    /// How often each directory is looked at, if there are not too many.
    pub(crate) interval: Duration,
}

impl Board {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, ..Self::default() }
    }

    /// Adds a directory that was not looked at yet; returns whether it is new.
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

    /// The children that have to be read to know whether they contend: names that are ambiguous, each once.
    pub(crate) fn unknown(&self, path: &str, listing: &Listing) -> Vec<String> {
        let Some(entry) = self.entries.get(path) else { return Vec::new() };
        let unknown = |name: &&String| {
            matches!(Child::of(name, listing), Child::Ambiguous(_)) && !entry.asked.contains_key(*name)
        };
        listing.names.iter().filter(unknown).cloned().collect()
    }

    /// A child was read.
    pub(crate) fn answer(&mut self, path: &str, name: String, contends: bool) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.asked.insert(name, contends);
        }
    }

    /// The first contender in a listing, if it is another one than at the last look, so that it has to be read. Nobody
    /// shows the first in the queue for a semaphore's permits.
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

    /// It was looked at. Returns the children that may have locks below them.
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

    /// There is no such directory any more.
    pub(crate) fn forget(&mut self, path: &str) {
        self.entries.remove(path);
    }

    /// It could not be read.
    pub(crate) fn refuse(&mut self, path: &str, problem: String, now: Instant) {
        if let Some(entry) = self.entries.get_mut(path) {
            *entry = Entry { problem: Some(problem), seen: Some(now), ..Entry::default() };
        }
    }

    /// The part of a semaphore at `path` that has this name.
    pub(crate) fn part(&self, path: &str, name: &str) -> Option<&Entry> {
        self.entries.get(&within(path, name))
    }

    /// Whether a directory is a part of the semaphore that it is in.
    pub(crate) fn is_part(&self, path: &str) -> bool {
        let Some((parent, "leases" | "locks")) = path.rsplit_once('/') else { return false };
        self.entries
            .get(if parent.is_empty() { "/" } else { parent })
            .is_some_and(|entry| entry.look.semaphore)
    }
}

/// The path of a child.
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
        // Ten seconds later it is quiet.
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
        // It stays the same hold, without another request.
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
        // A child that has gone is forgotten.
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
