//! Converts the state of directories to rows of the table on the screen, one for each lock.
//! Receives the current time from the caller.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zklock::internal::Escaped;

use crate::queue::{linger_ms, sharing};
use crate::top::lock_table::{Entry, Holder, LockTable};

/// A row of the table: one lock.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) state: State,
    /// `mutex`, `write`, `read`, `leader`, or the number of permits that are taken.
    pub(crate) mode: String,
    pub(crate) holding: usize,
    pub(crate) waiting: usize,
    pub(crate) holder: Option<Holder>,
    pub(crate) age: Option<Age>,
    /// Number of grants per second.
    pub(crate) rate: Option<f64>,
    /// Time since the directory was read.
    pub(crate) seen: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Held,
    Free,
    /// The directory is not readable.
    Unknown,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }
}

/// Time for which a lock has been held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age {
    pub(crate) time: Duration,
    /// True if the start of the hold is unknown, because it was before the first listing or during
    /// an outage. Then `time` is an upper bound.
    pub(crate) at_most: bool,
}

impl Age {
    /// Computes the age of a hold. If the two listings around the grant are at most `close` apart,
    /// this is the time from the second listing to `now`. Otherwise the age is an upper bound: the
    /// time since the first of these listings, or since the creation of the node if that is
    /// shorter. A server has set the creation time, and `now_ms` is the time of the wall clock.
    fn of(holder: &Holder, now: Instant, now_ms: i64, close: Duration) -> Self {
        let age = u64::try_from(now_ms.saturating_sub(holder.since)).unwrap_or_default();
        let at_most = |time| Self { time, at_most: true };
        match holder.granted {
            None => at_most(Duration::from_millis(age)),
            Some((before, seen)) if seen.saturating_duration_since(before) > close => {
                at_most(now.saturating_duration_since(before).min(Duration::from_millis(age)))
            }
            Some((_, seen)) => Self { time: now.saturating_duration_since(seen), at_most: false },
        }
    }

    pub(crate) fn shown(self) -> String {
        let time = Duration::from_secs(self.time.as_secs());
        format!("{}{}", if self.at_most { "<=" } else { "" }, humantime::format_duration(time))
    }
}

/// Delay of a listing that is normal on a busy machine.
const LATE: Duration = Duration::from_millis(500);

/// Sort order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// The longest queues first
    #[default]
    Waiting,
    /// By path
    Path,
    /// The oldest holds first
    Age,
    /// The busiest locks first
    Grants,
    /// By holder
    Holder,
}

impl Sort {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Path => "path",
            Self::Age => "age",
            Self::Grants => "grants",
            Self::Holder => "holder",
        }
    }

    /// Sorts the rows. Equal rows stay in the order of their paths.
    pub(crate) fn sort(self, rows: &mut [Row], reversed: bool) {
        match self {
            Self::Waiting => rows.sort_by_key(|row| Reverse((row.waiting, row.holding))),
            Self::Path => rows.sort_by(|one, other| one.path.cmp(&other.path)),
            Self::Age => rows.sort_by_key(|row| Reverse(row.age.map(|age| age.time))),
            Self::Grants => rows.sort_by(|one, other| {
                let rate = |row: &Row| row.rate.unwrap_or(-1.0);
                rate(other).total_cmp(&rate(one))
            }),
            Self::Holder => {
                rows.sort_by_cached_key(Row::who);
            }
        }
        if reversed {
            rows.reverse();
        }
    }
}

impl Row {
    /// Describes the holder by label, host and process, if they are known, and by its options
    /// `cohort` and `linger`.
    pub(crate) fn who(&self) -> String {
        let Some(holder) = &self.holder else {
            return if self.state == State::Unknown { "not readable".to_owned() } else { String::new() };
        };
        let Some(about) = &holder.about else {
            let data = String::from_utf8_lossy(&holder.data);
            return if data.is_empty() { "?".to_owned() } else { Escaped(&data).to_string() };
        };
        let label = about.label.as_deref().unwrap_or(&about.language);
        let sharing: String =
            sharing(about).into_iter().flat_map(|option| [", ".to_owned(), option]).collect();
        Escaped(&format!("{label} ({}, process {}){sharing}", about.host, about.pid)).to_string()
    }

    pub(crate) fn session(&self) -> String {
        self.holder.as_ref().map(|holder| format!("{:#x}", holder.session_id)).unwrap_or_default()
    }

    /// Returns `true` if the row contains the text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        text.is_empty()
            || self.path.contains(text)
            || self.who().contains(text)
            || self.session().contains(text)
    }

    pub(crate) fn to_json(&self) -> Value {
        let about = self.holder.as_ref().and_then(|holder| holder.about.as_ref());
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        json!({
            "path": self.path,
            "state": self.state.as_str(),
            "mode": self.mode,
            "holding": self.holding,
            "waiting": self.waiting,
            "grants_per_second": self.rate,
            "held_for_ms": self.age.map(|age| millis(age.time)),
            "held_for_at_most": self.age.map(|age| age.at_most),
            "seen_ms_ago": millis(self.seen),
            "holder": self.holder.as_ref().map(|holder| json!({
                "node": holder.name,
                "session": format!("{:#x}", holder.session_id),
                "token": holder.token.to_string(),
                "host": about.map(|about| &about.host),
                "pid": about.map(|about| about.pid),
                "label": about.and_then(|about| about.label.as_ref()),
                "cohort": about.and_then(|about| about.cohort),
                "linger_ms": about.and_then(linger_ms),
                "data": about.is_none().then(|| String::from_utf8_lossy(&holder.data)),
            })),
        })
    }
}

/// Returns a row for each lock, sorted by path. A free lock has a row if it has been used before.
pub(crate) fn rows(lock_table: &LockTable, now: Instant, now_ms: i64) -> Vec<Row> {
    let close = (2 * lock_table.interval).max(lock_table.interval + LATE);
    let row = |(path, entry): (&str, &Entry)| {
        if lock_table.is_part(path) {
            return None;
        }
        let mut row = if entry.summary.semaphore { semaphore(lock_table, path) } else { lock(entry) }?;
        path.clone_into(&mut row.path);
        row.seen = entry.seen.map(|seen| now.saturating_duration_since(seen)).unwrap_or_default();
        row.age = row.holder.as_ref().map(|holder| Age::of(holder, now, now_ms, close));
        Some(row)
    };
    lock_table.entries().filter_map(row).collect()
}

fn lock(entry: &Entry) -> Option<Row> {
    let summary = &entry.summary;
    let state = match (&entry.problem, summary.contenders) {
        (Some(_), _) => State::Unknown,
        (None, 0) => State::Free,
        _ => State::Held,
    };
    // A directory of other directories is not a lock, and neither is a directory that never had
    // children.
    if state == State::Free && (summary.has_inner || summary.created == 0) {
        return None;
    }
    Some(Row {
        path: String::new(),
        state,
        mode: if state == State::Held { summary.mode.as_str().to_owned() } else { String::new() },
        holding: summary.holding,
        waiting: summary.contenders - summary.holding,
        holder: entry.holder.clone(),
        age: None,
        rate: entry.rate(),
        seen: Duration::ZERO,
    })
}

/// Returns the row of a semaphore. The first contenders in `leases` hold the permits. The other
/// contenders, in `leases` and in the queue, wait. If no contender states the number of permits,
/// every contender in `leases` counts as a holder.
fn semaphore(lock_table: &LockTable, path: &str) -> Option<Row> {
    let leases = lock_table.part(path, "leases")?;
    let queue = lock_table.part(path, "locks").map_or(0, |entry| entry.summary.contenders);
    let permits = leases.holder.as_ref().and_then(|holder| holder.about.as_ref()?.permits);
    let inside = leases.summary.contenders;
    let holding = permits.map_or(inside, |permits| inside.min(permits as usize));
    // While the first contender in the queue waits for a permit, it can also have a node in
    // `leases`. Count it only once.
    let waiting = inside - holding + queue.saturating_sub(usize::from(inside > holding));
    let all = permits.map_or("?".to_owned(), |permits| permits.to_string());
    Some(Row {
        path: String::new(),
        state: if inside == 0 { State::Free } else { State::Held },
        mode: format!("{holding} of {all}"),
        holding,
        waiting,
        holder: leases.holder.clone(),
        age: None,
        rate: leases.rate(),
        seen: Duration::ZERO,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use zklock::internal::{Listing, NodeContent};

    use super::*;

    use crate::contender::tests::named;

    pub(crate) const NOW_MS: i64 = 1_700_000_100_000;

    fn node_content(permits: &str, since: i64) -> NodeContent {
        let data =
            format!(r#"{{"host":"db1","pid":42,"language":"rust","label":"nightly","since":5{permits}}}"#);
        NodeContent { data: data.into_bytes(), czxid: 7, session_id: 0x10, created: since }
    }

    /// Returns an example: a mutex with two waiters, a semaphore with one waiter for its second
    /// permit, a free lock, an unreadable directory, and directories that are not locks.
    pub(crate) fn example(now: Instant) -> LockTable {
        let listing = |all: &[&str], created| Listing {
            names: all.iter().map(ToString::to_string).collect(),
            czxid: 1,
            created,
        };
        let queue = |what: &str, numbers: &[u32], created| Listing {
            names: numbers.iter().map(|number| named(what, *number)).collect(),
            czxid: 1,
            created,
        };
        let mut lock_table = LockTable::default();
        for path in [
            "/locks",
            "/locks/gpu",
            "/locks/gpu/leases",
            "/locks/gpu/locks",
            "/locks/nightly",
            "/locks/old",
            "/locks/secret",
        ] {
            lock_table.discover(path);
        }
        let began = now.checked_sub(Duration::from_secs(2)).unwrap_or(now);
        for (at, created) in [(began, 10), (now, 13)] {
            lock_table.update("/locks", &listing(&["gpu", "nightly", "old", "secret"], 4), None, at);
            let nightly = queue("lock-", &[7, 8, 9], created);
            lock_table.update("/locks/nightly", &nightly, Some(node_content("", NOW_MS - 65_000)), at);
            lock_table.update("/locks/gpu", &listing(&["leases", "locks"], 2), None, at);
            lock_table.update(
                "/locks/gpu/leases",
                &queue("lease-", &[1, 2, 3], 3),
                Some(node_content(r#","permits":2"#, NOW_MS - 9_000)),
                at,
            );
            lock_table.update("/locks/gpu/locks", &queue("lock-", &[3, 4], 4), None, at);
            lock_table.update("/locks/old", &listing(&[], 4), None, at);
            lock_table.refuse("/locks/secret", "denied".to_owned(), at);
        }
        lock_table
    }

    #[test]
    fn a_row_for_each_lock() {
        let now = Instant::now();
        let all = rows(&example(now), now, NOW_MS);
        let told: Vec<_> = all
            .iter()
            .map(|row| (row.path.as_str(), row.state.as_str(), row.mode.as_str(), row.holding, row.waiting))
            .collect();
        assert_eq!(
            told,
            [
                ("/locks/gpu", "held", "2 of 2", 2, 2),
                ("/locks/nightly", "held", "mutex", 1, 2),
                ("/locks/old", "free", "", 0, 0),
                ("/locks/secret", "unknown", "", 0, 0),
            ]
        );
        let nightly = &all[1];
        assert_eq!(nightly.who(), "nightly (db1, process 42)");
        assert_eq!((nightly.rate, nightly.session().as_str()), (Some(1.5), "0x10"));
        assert_eq!(nightly.age.map(Age::shown).as_deref(), Some("<=1m 5s"));
        assert_eq!(nightly.to_json()["holder"]["token"], "7");
    }

    #[test]
    fn a_node_that_may_be_kept_or_handed_on_says_so() {
        let now = Instant::now();
        for (said, words, cohort, linger) in [
            (r#","linger":1500"#, ", linger 1s 500ms", json!(null), json!(1500)),
            (r#","cohort":64"#, ", cohort 64", json!(64), json!(null)),
            (r#","cohort":2,"linger":60000"#, ", cohort 2, linger 1m", json!(2), json!(60_000)),
        ] {
            let mut lock_table = LockTable::default();
            lock_table.discover("/a");
            let queue = Listing { names: vec![named("lock-", 1)], czxid: 1, created: 2 };
            lock_table.update("/a", &queue, Some(node_content(said, NOW_MS)), now);
            let [row] = &rows(&lock_table, now, NOW_MS)[..] else { panic!("one lock") };
            assert_eq!(row.who(), format!("nightly (db1, process 42){words}"));
            let holder = &row.to_json()["holder"];
            assert_eq!((&holder["cohort"], &holder["linger_ms"]), (&cohort, &linger));
        }
    }

    #[test]
    fn only_a_hold_that_was_seen_to_begin_has_an_exact_age() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        // The second listing is either in time or after an outage.
        for (pause, at_most, shown) in [(second, false, "3s"), (60 * second, true, "<=1m 3s")] {
            let mut lock_table = LockTable::new(second);
            lock_table.discover("/a");
            let listing = |number| Listing { names: vec![named("lock-", number)], czxid: 1, created: 9 };
            lock_table.update("/a", &listing(1), Some(node_content("", NOW_MS - 500_000)), start);
            lock_table.update("/a", &listing(2), Some(node_content("", NOW_MS - 400_000)), start + pause);
            let age = rows(&lock_table, start + pause + 3 * second, NOW_MS)[0].age.unwrap();
            assert_eq!((age.at_most, age.shown().as_str()), (at_most, shown));
        }
        // The holder's node was created after the outage.
        let mut lock_table = LockTable::new(second);
        lock_table.discover("/a");
        lock_table.update("/a", &Listing::default(), None, start);
        let listing = Listing { names: vec![named("lock-", 2)], czxid: 1, created: 9 };
        lock_table.update("/a", &listing, Some(node_content("", NOW_MS - 7_000)), start + 60 * second);
        assert_eq!(rows(&lock_table, start + 60 * second, NOW_MS)[0].age.unwrap().shown(), "<=7s");
    }

    #[test]
    fn a_clock_that_is_behind_makes_nothing_negative() {
        let now = Instant::now();
        let all = rows(&example(now), now, 0);
        assert_eq!(all[1].age.map(|age| age.time), Some(Duration::ZERO));
    }

    #[test]
    fn sorted_and_filtered() {
        let now = Instant::now();
        let mut all = rows(&example(now), now, NOW_MS);
        let order = |all: &[Row]| all.iter().map(|row| row.path[7..8].to_owned()).collect::<String>();
        for (sort, expected) in
            [(Sort::Path, "gnos"), (Sort::Waiting, "gnos"), (Sort::Age, "ngos"), (Sort::Grants, "ngos")]
        {
            Sort::Path.sort(&mut all, false);
            sort.sort(&mut all, false);
            assert_eq!(order(&all), expected, "{sort:?}");
        }
        Sort::Path.sort(&mut all, true);
        assert_eq!(order(&all), "song");
        assert!(all[2].matches("night") && all[2].matches("process 42") && all[2].matches("0x10"));
        assert!(!all[2].matches("weekly"));
    }
}
