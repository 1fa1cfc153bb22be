//! Defines [`Deadlock`], which is part of the error of an attempt that timed out because two owners
//! wait for each other.

use std::fmt;

use crate::error::escape::Escaped;
use crate::queue::contender::{Contender, ContenderInfo, OwnerInfo};
use crate::system::host_name;

/// A deadlock of two owners that wait for each other. See
/// [`Error::deadlock`](crate::Error::deadlock). Its `Display` text is the last sentence of the
/// error's message.
///
/// ```no_run
/// # async fn example(lock: &zklock::Mutex, owner: &zklock::Owner) {
/// # use std::time::Duration;
/// if let Err(error) = lock.acquire_as(owner, Duration::from_secs(5)).await {
///     if let Some(deadlock) = error.deadlock() {
///         println!("{} and {} have to be taken in one order", deadlock.held, deadlock.waited);
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// Path of the lock that the caller's owner held and for which the other owner waited.
    pub held: String,
    /// Path of the lock that the caller's owner waited for.
    pub waited: String,
    /// The other owner's contender in the queue of `waited`. It is ahead of the caller's contender.
    pub other: Contender,
    text: Box<str>,
}

impl Deadlock {
    /// Creates the report. `holds` is `true` if the other contender holds the lock `waited`, and
    /// `false` if it only waits ahead of ours.
    pub(crate) fn new(held: &str, waited: &str, other: Contender, holds: bool) -> Self {
        let who = who(&other);
        let (here, there) = (Escaped(held), Escaped(waited));
        let does = if holds { "holds" } else { "is ahead of you in the queue of" };
        let text = format!(
            "deadlock: you hold {here} and wait for {there}; {who} {does} {there} and waits for {here}"
        );
        Self { held: held.to_owned(), waited: waited.to_owned(), other, text: text.into() }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns a short name for the other owner. A short name is enough, because the message has
/// already described the blockers in full.
fn who(contender: &Contender) -> String {
    let Some(ContenderInfo { host, pid, label, owner, .. }) = &contender.about else {
        return format!("the contender {}", Escaped(&contender.node));
    };
    let here = *pid == std::process::id() && *host == host_name();
    match (owner, label) {
        (Some(OwnerInfo { number, name: Some(name), .. }), _) if here => {
            format!("owner {number} ({}) of this process", Escaped(name))
        }
        (Some(OwnerInfo { number, .. }), _) if here => format!("owner {number} of this process"),
        (_, Some(label)) => format!("{} on {}", Escaped(label), Escaped(host)),
        _ => format!("process {pid} on {}", Escaped(host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::NodeName;
    use crate::queue::contender::NodeSnapshot;

    fn text(host: &str, pid: u32, label: &str, holds: bool) -> String {
        let owner = r#"{"number":3,"name":"io","process":9}"#;
        let data = format!(
            r#"{{"host":"{host}","pid":{pid},"language":"rust","label":{label},"since":1,"owner":{owner}}}"#
        );
        let name = NodeName::parse("_c_x-lock-0000000001").unwrap();
        let snapshot =
            NodeSnapshot { owner: 1, czxid: 7, data: data.as_bytes().into(), data_length: data.len() };
        Deadlock::new("/a", "/b", Contender::seen(0, &name, &snapshot), holds).to_string()
    }

    #[test]
    fn a_deadlock_names_both_locks_and_the_other_owner() {
        let expected = "deadlock: you hold /a and wait for /b; worker-2 on host-7 holds /b and waits for /a";
        assert_eq!(text("host-7", 71, r#""worker-2""#, true), expected);
        let nameless = text("host-7", 71, "null", false);
        let expected = "; process 71 on host-7 is ahead of you in the queue of /b and waits for /a";
        assert!(nameless.ends_with(expected), "{nameless}");
        let here = text(&host_name(), std::process::id(), r#""worker-2""#, true);
        assert!(here.contains("; owner 3 (io) of this process holds /b"), "{here}");
    }
}
