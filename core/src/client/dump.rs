//! A text report of the waits and holds of this process, for debugging a program that hangs.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::time::Duration;

use crate::client::health::Health;
use crate::client::registry;
use crate::config::ClientOptions;
use crate::error::escape::Escaped;
use crate::error::timestamp::Date;
use crate::lease::owner::{Owner, OwnerId};
use crate::lease::report::{HoldReport, WaitReport};
use crate::runtime::clock;

/// Returns all waits and holds of this process, client by client, as text for people who debug a
/// program that hangs. Because the format can change, programs should use
/// [`Client::health`](crate::Client::health). The report leaves out closed clients and clients that
/// were never used.
///
/// Sends no request and waits for no server. It waits up to 0.1 s per client for the library's own
/// thread. [`dump_on`](crate::dump_on) writes the same text when the process receives a signal.
///
/// ```
/// eprintln!("{}", zklock::dump());
/// ```
#[must_use]
pub fn dump() -> String {
    dump_with_callers(&|_| None)
}

/// Like [`dump`], and names the caller of each wait and hold if the binding knows it: `thread
/// "worker-1" at app.py:12`.
#[must_use]
pub fn dump_with_callers(caller: &dyn Fn(OwnerId) -> Option<String>) -> String {
    let mut text = String::new();
    // Writing to a `String` never fails.
    write(&mut text, &registry::health_of_all(), caller).ok();
    text
}

fn write(
    text: &mut String,
    all: &[(ClientOptions, Health)],
    caller: &dyn Fn(OwnerId) -> Option<String>,
) -> fmt::Result {
    let now = Date(u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX));
    let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
    writeln!(text, "zklock {version}, process {process}, {now}: {}", Plural(all.len(), "client"))?;
    for (options, health) in all {
        let Health { state, server, session_id, waits, holds, .. } = health;
        write!(text, "client of {}: {state}", Escaped(&options.hosts.to_string()))?;
        if let Some(server) = server {
            write!(text, " to {}", Escaped(server))?;
        }
        if *session_id != 0 {
            write!(text, ", session {session_id:#x} of {}", Seconds(health.session_timeout))?;
        }
        if let Some(age) = health.last_proof {
            write!(text, ", proven {} ago, {} of the term left", Seconds(age), Seconds(health.remaining))?;
        }
        if !health.responsive {
            writeln!(text, "; its queues could not be read: the library's thread is busy")?;
            continue;
        }
        writeln!(text, "; {}, {}", Plural(waits.len(), "wait"), Plural(holds.len(), "hold"))?;
        let own: HashSet<&str> = holds.iter().map(|hold| hold.node.as_str()).collect();
        for wait in waits {
            let behind_own = wait.behind.as_ref().is_some_and(|node| own.contains(node.as_str()));
            write_wait(text, wait, behind_own)?;
            write_owner(text, &wait.owner, caller)?;
        }
        for hold in holds {
            write_hold(text, hold)?;
            write_owner(text, &hold.owner, caller)?;
        }
    }
    Ok(())
}

/// Writes a wait. `own` is `true` if this client itself holds the node directly ahead of the waiter
/// in the queue.
fn write_wait(text: &mut String, wait: &WaitReport, own: bool) -> fmt::Result {
    let WaitReport { path, mode, label, age, node, in_cohort, position, behind, .. } = wait;
    write!(text, "  waits for {} ({mode}{}) for {}", Escaped(path), Label(label.as_deref()), Seconds(*age))?;
    match (node, position) {
        (Some(node), Some(position)) => write!(text, ", {position} ahead, as {}", Escaped(node))?,
        (None, position) if *in_cohort => {
            if let Some(position) = position {
                write!(text, ", {position} ahead")?;
            }
            text.push_str(", in a cohort, without a node of its own");
        }
        _ => text.push_str(", not in the queue yet"),
    }
    if let Some(behind) = behind {
        write!(text, ", behind {}{}", Escaped(behind), if own { ", which this client holds" } else { "" })?;
    }
    Ok(())
}

/// Completes the line of a wait or a hold with its owner.
fn write_owner(text: &mut String, owner: &Owner, caller: &dyn Fn(OwnerId) -> Option<String>) -> fmt::Result {
    write!(text, ", by owner {}", owner.number())?;
    match caller(owner.id()).or_else(|| owner.name().map(str::to_owned)) {
        Some(name) => writeln!(text, " ({})", Escaped(&name)),
        None => writeln!(text),
    }
}

fn write_hold(text: &mut String, hold: &HoldReport) -> fmt::Result {
    let HoldReport { path, mode, label, age, node, fencing_token, levels, pinned, state, remaining, .. } =
        hold;
    write!(text, "  holds {} ({mode}{}) for {}", Escaped(path), Label(label.as_deref()), Seconds(*age))?;
    write!(text, ", as {}, token {fencing_token}, {state}, {} left", Escaped(node), Seconds(*remaining))?;
    if *levels > 1 {
        write!(text, ", {levels} leases")?;
    }
    if *pinned {
        text.push_str(", pinned");
    }
    Ok(())
}

struct Plural(usize, &'static str);

impl fmt::Display for Plural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

struct Label<'a>(Option<&'a str>);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |label| write!(f, ", {}", Escaped(label)))
    }
}
