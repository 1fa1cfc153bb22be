//! All that is known of the locks below a path, from one look to the next. Pure: moments are given.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use zklock::ContenderInfo;
use zklock::internal::{Listing, NodeContent, about};

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
    /// When it was first seen to hold, if somebody else was seen to hold before, or nobody.
    pub(crate) granted: Option<Instant>,
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
            let granted = self.seen.is_some().then_some(now);
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
}

impl Board {
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
        let (look, inner) = Look::of(listing);
        if let Some(entry) = self.entries.get_mut(path) {
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

    fn listing(names: &[&str], created: u32) -> Listing {
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
        board.update("/a", &listing(&["x-lock-0000000001"], 2), Some(sight()), start);
        assert_eq!(board.get("/a").and_then(Entry::rate), None);
        board.update("/a", &listing(&[], 102), None, start + Duration::from_secs(2));
        let rate = board.get("/a").and_then(Entry::rate).unwrap();
        assert!((rate - 50.5).abs() < 0.01, "101 in two seconds, of whom one look saw nobody: {rate}");
        // Ten seconds later it is quiet.
        for after in [4, 8, 13, 16] {
            board.update("/a", &listing(&[], 102), None, start + Duration::from_secs(after));
        }
        assert_eq!(board.get("/a").and_then(Entry::rate), Some(0.0));
        assert!(!board.get("/a").unwrap().is_busy());
    }

    #[test]
    fn a_hold_that_was_seen_to_begin_has_its_moment() {
        let start = Instant::now();
        let mut board = Board::default();
        board.discover("/a");
        board.update("/a", &listing(&["x-lock-0000000001", "y-lock-0000000002"], 2), Some(sight()), start);
        assert_eq!(board.get("/a").unwrap().holder.as_ref().unwrap().granted, None, "since when, who knows");
        let later = start + Duration::from_secs(1);
        board.update("/a", &listing(&["y-lock-0000000002"], 2), Some(sight()), later);
        let holder = board.get("/a").unwrap().holder.clone().unwrap();
        assert_eq!((holder.name.as_str(), holder.granted), ("y-lock-0000000002", Some(later)));
        // It stays the same hold, without another request.
        board.update("/a", &listing(&["y-lock-0000000002"], 2), None, later + WINDOW);
        assert_eq!(board.get("/a").unwrap().holder, Some(holder));
    }

    #[test]
    fn a_semaphore_has_parts() {
        let mut board = Board::default();
        for path in ["/locks", "/locks/s", "/locks/s/leases", "/locks/s/locks"] {
            board.discover(path);
        }
        board.update("/locks/s", &listing(&["leases", "locks"], 2), None, Instant::now());
        assert!(board.is_part("/locks/s/leases") && board.is_part("/locks/s/locks"));
        assert!(!board.is_part("/locks") && !board.is_part("/locks/s"));
    }
}
