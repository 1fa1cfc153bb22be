//! The contenders that blocked an acquire when it timed out. The client already knows them, so it
//! sends no request for this.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use crate::error::deadlock::Deadlock;
use crate::error::escape;
use crate::error::escape::Escaped;
use crate::error::timestamp::Date;
use crate::queue::NodeName;
use crate::queue::contender::{Contender, ContenderInfo, NodeSnapshot, OwnerInfo};
use crate::system::host_name;

/// Maximum number of blockers that the error message names: the first contender of the queue, and
/// the two directly ahead of the attempt. A semaphore can have many more blockers.
const TOLD: usize = 3;

/// A contender that blocks the attempt.
#[derive(Clone, Debug)]
pub(crate) struct Blocker {
    /// Its position in the queue, from 0.
    pub(crate) position: usize,
    pub(crate) name: NodeName,
    pub(crate) snapshot: Arc<NodeSnapshot>,
    /// `true` if the contender belongs to the same client.
    pub(crate) ours: bool,
    /// `true` if the contender is known to hold the lock.
    pub(crate) holds: bool,
}

/// The contenders that block an attempt. Their descriptions are made from node data that other
/// programs wrote. That data is parsed only when the program reads the error. The reason is that
/// many waiters can time out at the same time, on the thread that must also send heartbeats.
#[derive(Debug)]
pub(crate) struct Blockers {
    seen: Vec<Blocker>,
    /// Directory of their nodes, below the chroot.
    directory: String,
    /// The part of `directory` that is a semaphore's subdirectory.
    part: String,
    /// The deadlock that was found, if any.
    deadlock: Option<Box<Deadlock>>,
    read: OnceLock<(Vec<Contender>, String)>,
}

impl Blockers {
    /// Creates the list of blockers of an attempt. If their nodes are in a subdirectory of a
    /// semaphore, `part` is the name of that subdirectory, such as `locks/`. Otherwise `part` is
    /// empty.
    pub(crate) fn new(seen: Vec<Blocker>, directory: &str, part: &str) -> Self {
        Self {
            seen,
            directory: directory.to_owned(),
            part: part.to_owned(),
            deadlock: None,
            read: OnceLock::new(),
        }
    }

    /// Adds a deadlock, whose description ends the text.
    pub(crate) fn with_deadlock(self, deadlock: Option<Box<Deadlock>>) -> Self {
        Self { deadlock, ..self }
    }

    pub(crate) fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_deref()
    }

    /// Returns the contenders, in queue order.
    pub(crate) fn contenders(&self) -> &[Contender] {
        &self.read().0
    }

    /// Returns the description that an error appends to its message. It is empty if there are no
    /// blockers.
    pub(crate) fn text(&self) -> &str {
        &self.read().1
    }

    fn read(&self) -> &(Vec<Contender>, String) {
        self.read.get_or_init(|| {
            let (mut contenders, mut text) = (Vec::with_capacity(self.seen.len()), String::new());
            let holding = match self.part.as_str() {
                "locks/" => ", whose turn it is",
                "leases/" => ", which has a permit",
                _ => ", which holds it",
            };
            for Blocker { position, name, snapshot, ours, holds } in &self.seen {
                let contender = Contender::seen(*position, name, snapshot);
                if contenders.len() < TOLD {
                    text += if contenders.is_empty() { ": " } else { "; " };
                    describe(&mut text, &contender, *ours);
                    text += if *holds { holding } else { "" };
                }
                contenders.push(contender.within(&self.directory));
            }
            if let more @ 1.. = self.seen.len().saturating_sub(TOLD) {
                write!(text, "; and {more} more").ok();
            }
            if let Some(deadlock) = &self.deadlock {
                write!(text, "; {deadlock}").ok();
            }
            (contenders, escape::message(text.into()).into_owned())
        })
    }
}

/// Appends the description of one contender to `text`. The results of `write!` are ignored, because
/// writing to a `String` never fails.
fn describe(text: &mut String, contender: &Contender, ours: bool) {
    let about = contender.about.as_ref();
    match about {
        _ if ours => text.push_str("another owner in this client"),
        Some(ContenderInfo { host, pid, .. }) if *pid == std::process::id() && *host == host_name() => {
            text.push_str("another client in this process");
        }
        Some(ContenderInfo { host, pid, .. }) => drop(write!(text, "process {pid} on {}", Escaped(host))),
        None => drop(write!(
            text,
            "the contender {} of session {:#x}",
            Escaped(&contender.node),
            contender.session_id
        )),
    }
    if let Some(ContenderInfo { label, since, owner, .. }) = about {
        if let Some(label) = label {
            write!(text, " ({})", Escaped(label)).ok();
        }
        if let Some(OwnerInfo { number, name, .. }) = owner {
            let word = if ours { "number" } else { "owner" };
            write!(text, ", {word} {number}").ok();
            if let Some(name) = name {
                write!(text, " ({})", Escaped(name)).ok();
            }
        }
        write!(text, ", since {}", Date(*since)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocker(position: usize, data: &str, ours: bool) -> Blocker {
        let name = NodeName::parse(&format!("_c_x-lock-{position:010}")).unwrap();
        let snapshot =
            NodeSnapshot { owner: 0x1f, czxid: 7, data: data.as_bytes().into(), data_length: data.len() };
        Blocker { position, name, snapshot: Arc::new(snapshot), ours, holds: position == 0 }
    }

    fn about(host: &str, pid: u32, label: &str) -> String {
        format!(r#"{{"host":"{host}","pid":{pid},"language":"rust","label":{label},"since":1000}}"#)
    }

    fn text(seen: Vec<Blocker>) -> String {
        Blockers::new(seen, "/l", "").text().to_owned()
    }

    #[test]
    fn whoever_is_in_the_way_is_named() {
        assert_eq!(text(Vec::new()), "");
        let seen = vec![blocker(0, &about("web-1", 7, r#""nightly""#), false), blocker(1, "10.0.0.1", false)];
        let expected = ": process 7 on web-1 (nightly), since 1970-01-01T00:00:01Z, which holds it; \
            the contender _c_x-lock-0000000001 of session 0x1f";
        assert_eq!(text(seen), expected);
    }

    #[test]
    fn the_owner_inside_a_client_is_named() {
        let owned =
            |owner: &str| format!(r#"{},"owner":{owner}}}"#, about("web-1", 7, "null").trim_end_matches('}'));
        let seen =
            [r#"{"number":3,"name":"a\u0007","process":9}"#, r#"{"number":4,"name":null,"process":9}"#, "4"]
                .map(|owner| blocker(1, &owned(owner), false));
        let expected = r": process 7 on web-1, owner 3 (a\u{7}), since 1970-01-01T00:00:01Z; \
            process 7 on web-1, owner 4, since 1970-01-01T00:00:01Z; \
            process 7 on web-1, since 1970-01-01T00:00:01Z";
        assert_eq!(text(seen.into()), expected.replace("\\\n            ", ""));
    }

    #[test]
    fn a_wait_for_oneself_is_told_from_one_for_another() {
        let here = about(&host_name(), std::process::id(), "null");
        let told = |ours| text(vec![blocker(1, &here, ours)]);
        assert_eq!(told(true), ": another owner in this client, since 1970-01-01T00:00:01Z");
        assert_eq!(told(false), ": another client in this process, since 1970-01-01T00:00:01Z");
        assert_eq!(text(vec![blocker(0, "", true)]), ": another owner in this client, which holds it");
    }

    #[test]
    fn what_others_say_of_themselves_cannot_write_on_a_terminal() {
        let told = text(vec![blocker(1, &about("\\u001b[2Jx", 7, r#""\u0007""#), false)]);
        assert_eq!(told, r": process 7 on \u{1b}[2Jx (\u{7}), since 1970-01-01T00:00:01Z");
    }

    #[test]
    fn nodes_are_named_as_among_the_contenders_of_the_lock() {
        let blockers = Blockers::new(vec![blocker(0, "x", false)], "/l/locks", "locks/");
        let [contender] = blockers.contenders() else { panic!("one") };
        assert_eq!(contender.node, "/l/locks/_c_x-lock-0000000000");
        assert_eq!((contender.session_id, contender.fencing_token), (0x1f, 7));
        assert_eq!((contender.data.as_slice(), contender.data_length), (&b"x"[..], 1));
    }
}
