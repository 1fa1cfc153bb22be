//! Who stands in the way of a contender whose time is up: as far as is known, without asking.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use crate::error::deadlock::Deadlock;
use crate::error::escape;
use crate::error::escape::Escaped;
use crate::error::timestamp::Date;
use crate::queue::NodeName;
use crate::queue::contender::{Contender, ContenderInfo, NodeSnapshot, OwnerInfo, host_name};

/// How many the message tells of: the first and the nearest two of a queue. Permits may be many.
const TOLD: usize = 3;

/// One that stands in the way.
#[derive(Clone, Debug)]
pub(crate) struct Blocker {
    /// Its place in the queue, from 0.
    pub(crate) position: usize,
    pub(crate) name: NodeName,
    pub(crate) snapshot: Arc<NodeSnapshot>,
    /// Whether it is a contender of the same client.
    pub(crate) ours: bool,
    /// Whether it is known to hold.
    pub(crate) holds: bool,
}

/// Those that stand in the way. What they say of themselves is others' text, and many waiters may give up at once on the
/// one thread that has heartbeats to send: it is read by whoever looks at the error.
#[derive(Debug)]
pub(crate) struct Blockers {
    seen: Vec<Blocker>,
    /// Where their nodes are, below the chroot.
    directory: String,
    /// What of that is the subdirectory of a semaphore.
    part: String,
    /// The deadlock that was found.
    deadlock: Option<Box<Deadlock>>,
    read: OnceLock<(Vec<Contender>, String)>,
}

impl Blockers {
    /// `part`: what of the directory is the subdirectory of a semaphore, as in `locks/`; or nothing.
    pub(crate) fn new(seen: Vec<Blocker>, directory: &str, part: &str) -> Self {
        Self {
            seen,
            directory: directory.to_owned(),
            part: part.to_owned(),
            deadlock: None,
            read: OnceLock::new(),
        }
    }

    /// The same with a deadlock, which ends the text.
    pub(crate) fn with_deadlock(self, deadlock: Option<Box<Deadlock>>) -> Self {
        Self { deadlock, ..self }
    }

    pub(crate) fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_deref()
    }

    /// In the order of the queue.
    pub(crate) fn contenders(&self) -> &[Contender] {
        &self.read().0
    }

    /// What an error says of them, for use behind its message; nothing if there are none.
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

/// Writing to a string does not fail.
fn describe(text: &mut String, contender: &Contender, ours: bool) {
    let about = contender.about.as_ref();
    match about {
        _ if ours => text.push_str("this client itself, by another owner"),
        Some(ContenderInfo { host, pid, .. }) if *pid == std::process::id() && *host == host_name() => {
            text.push_str("this process, by another client");
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
        assert_eq!(told(true), ": this client itself, by another owner, since 1970-01-01T00:00:01Z");
        assert_eq!(told(false), ": this process, by another client, since 1970-01-01T00:00:01Z");
        assert_eq!(
            text(vec![blocker(0, "", true)]),
            ": this client itself, by another owner, which holds it"
        );
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
