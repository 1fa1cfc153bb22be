//! Formats the deadlocks that were found. Sends no request.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use zklock::Contender;
use zklock::internal::Escaped;
use zklock::queue::{Cycle, CycleOwner, CyclePlace};

use super::advice::Finding;
use super::deadlocks::{Counts, Search};
use crate::queue::age;

const NEXT: &str = "acquire these locks in the same order everywhere, or together with a MultiLock";

/// Returns all findings of a search below a path.
pub(crate) fn findings(path: &str, search: &Search, missing: Option<String>) -> Vec<Finding> {
    if let Some(missing) = missing {
        let what = format!("no lock was checked: {}: {missing}", Escaped(path));
        return vec![Finding::note(&what, "pass a path that exists")];
    }
    let counts = search.counts;
    let mut findings: Vec<_> = search.cycles.iter().map(deadlock_finding).collect();
    if findings.is_empty() {
        findings.push(Finding::good(format!(
            "no deadlock at or below {}: {}",
            Escaped(path),
            summary(counts)
        )));
    } else {
        findings.push(Finding::good(format!("checked {}: {}", Escaped(path), summary(counts))));
    }
    if let some @ 1.. = counts.unattributed {
        let what = format!(
            "{} no owner (Curator, kazoo, identify=False), so some deadlocks can be missed",
            count_of(some, "contender states", "contenders state"),
        );
        findings.push(Finding::note(&what, "run `zklock ls` to list the contenders"));
    }
    if let some @ 1.. = counts.semaphores {
        let what = format!("{} not checked", count_of(some, "semaphore was", "semaphores were"));
        findings.push(Finding::note(
            &what,
            "a waiter gets a permit as soon as any holder releases one; run `zklock ls` to list the holders",
        ));
    }
    if let some @ 1.. = counts.refused {
        let what = format!("{} not readable", count_of(some, "directory is", "directories are"));
        findings.push(Finding::note(
            &what,
            "use --auth-file with credentials that their access control lists permit",
        ));
    }
    findings
}

fn summary(counts: Counts) -> String {
    let Counts { directories, contended, waiting, .. } = counts;
    let (directories, locks) = (
        count_of(directories, "directory", "directories"),
        count_of(contended, "contended lock", "contended locks"),
    );
    format!("{directories} with {locks}, {waiting} waiting")
}

fn count_of(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn deadlock_finding(cycle: &Cycle) -> Finding {
    let lines = cycle.owners.iter().map(owner_line).collect();
    let what = format!("deadlock: {} owners wait for each other", cycle.owners.len());
    let next = cycle.owners.first().map_or_else(
        || NEXT.to_owned(),
        |CycleOwner { waiting: CyclePlace { path, contender, .. }, .. }| {
            let name = contender.node.rsplit('/').next().unwrap_or_default();
            // Recommend removing a waiting node, so that no holder loses its lock.
            format!(
                "{NEXT}; to resolve this deadlock now, remove one waiter: zklock break {} {}",
                Escaped(path),
                Escaped(name)
            )
        },
    );
    let owners: Vec<_> = cycle.owners.iter().map(to_json).collect();
    Finding::change(what, &next).with_owners(lines, owners)
}

/// Describes one owner as a text line.
fn owner_line(owner: &CycleOwner) -> String {
    let CycleOwner { blocking, waiting } = owner;
    let (owner_name, at) = (Escaped(&owner_name(&waiting.contender)).to_string(), |place: &CyclePlace| {
        format!("{} for {}", Escaped(&place.path), waiting_time(&place.contender))
    });
    if blocking == waiting {
        return format!(
            "{owner_name} waits for {}, and blocks the previous owner in the same queue",
            at(waiting)
        );
    }
    let does = if blocking.holds { "holds" } else { "is queued for" };
    format!("{owner_name} {does} {} and waits for {}", at(blocking), at(waiting))
}

fn owner_name(contender: &Contender) -> String {
    let Some(about) = &contender.about else {
        let name = contender.node.rsplit('/').next().unwrap_or_default();
        return format!("the contender {name} of session {:#x}", contender.session_id);
    };
    let of = format!("process {} on {}", about.pid, about.host);
    let owner = about.owner.as_ref().map(|owner| {
        let name = owner.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        format!("owner {}{name} of {of}", owner.number)
    });
    format!("{} ({})", about.label.as_ref().unwrap_or(&about.language), owner.unwrap_or(of))
}

/// Returns how long the contender has been in the queue, by the clock of its own host.
fn waiting_time(contender: &Contender) -> String {
    age(contender.about.as_ref().and_then(|about| UNIX_EPOCH.checked_add(Duration::from_millis(about.since))))
}

/// Describes one owner as JSON.
fn to_json(owner: &CycleOwner) -> Value {
    let CycleOwner { blocking, waiting } = owner;
    let place = |place: &CyclePlace| {
        json!({
            "path": place.path,
            "state": if place.holds { "holds" } else { "waits" },
            "node": place.contender.node,
            "token": place.contender.fencing_token.to_string(),
            "since": place.contender.about.as_ref().map(|about| about.since),
        })
    };
    let about = waiting.contender.about.as_ref();
    json!({
        "host": about.map(|about| &about.host),
        "pid": about.map(|about| about.pid),
        "language": about.map(|about| &about.language),
        "label": about.and_then(|about| about.label.as_ref()),
        "owner": about.and_then(|about| about.owner.as_ref()).map(|owner| json!({
            "number": owner.number,
            "name": owner.name,
            "process": owner.process,
        })),
        "session": format!("{:#x}", waiting.contender.session_id),
        "blocks": place(blocking),
        "waits": place(waiting),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use zklock::internal::contender;
    use zklock::queue::{LockQueue, WaitGraph};

    use super::*;

    /// Returns a queue whose owners belong to one process.
    pub(crate) fn queue(path: &str, owners: &[u64]) -> LockQueue {
        let data = |owner: &u64| {
            let label = format!("worker-{owner}");
            let owner = json!({ "number": owner, "name": null, "process": 1 });
            json!({ "host": "h", "pid": 7, "language": "rust", "label": label, "since": 0, "owner": owner })
                .to_string()
        };
        let one = |(position, owner): (usize, &u64)| {
            let node = format!("{path}/_c_00000000-0000-0000-0000-{owner:012}-lock-{position:010}");
            contender(position, &node, i64::try_from(position).unwrap_or_default(), data(owner).as_bytes())
        };
        LockQueue { path: path.to_owned(), contenders: owners.iter().enumerate().filter_map(one).collect() }
    }

    #[test]
    fn a_deadlock_names_each_owner_and_both_of_its_locks() {
        let queues = [queue("/a", &[1, 2]), queue("/b", &[2, 1])];
        let search = Search { cycles: WaitGraph::new(&queues).cycles(), counts: Counts::default() };
        let [found, _] = &findings("/", &search, None)[..] else { panic!("one, and the counts") };
        assert!(found.is_a_problem());
        let text = found.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "CHANGE  deadlock: 2 owners wait for each other");
        let [one, other] = [lines[1], lines[2]];
        let starts = "        worker-1 (owner 1 of process 7 on h) holds /a for ";
        assert!(one.starts_with(starts) && one.contains(" and waits for /b for "), "{one}");
        assert!(other.contains("worker-2 (owner 2 of process 7 on h) holds /b for "), "{other}");
        assert!(lines[3].contains("zklock break /b _c_00000000-0000-0000-0000-000000000001-lock-0000000001"));
        assert_eq!(found.to_json()["owners"][1]["waits"]["path"], "/a");
    }

    #[test]
    fn everything_that_was_left_out_is_told() {
        let counts =
            Counts { directories: 1, contended: 1, waiting: 2, unattributed: 1, semaphores: 2, refused: 3 };
        let found = findings("/l", &Search { cycles: Vec::new(), counts }, None);
        assert!(!found.iter().any(Finding::is_a_problem));
        let text: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(text[0].contains("no deadlock at or below /l: 1 directory with 1 contended lock, 2 waiting"));
        assert!(
            text[1].contains("1 contender states no owner")
                && text[2].contains("2 semaphores were not checked")
        );
        assert!(text[3].contains("3 directories are not readable"));
    }
}
