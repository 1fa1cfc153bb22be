//! Warns if a semaphore and another kind of lock use the same path. They do not exclude each other,
//! because a semaphore has its contenders in subdirectories.

use zklock::internal::{Escaped, about, list, look};
use zklock::{Client, ErrorKind, Lease};

use crate::contender::Child;
use crate::run::options::Options;
use crate::run::report::Reporter;

/// This check delays the command by at most the session timeout divided by this number.
const PART: u32 = 10;

/// Maximum number of nodes that are read to find out whether one of the children is a contender.
const MOST: usize = 10;

/// Reports a contender of the other kind of lock. If there is none, the check takes one request.
pub(crate) async fn warn_of_other_kind(
    client: &Client,
    lease: &Lease,
    options: &Options,
    reporter: &Reporter,
) {
    let limit = lease.session_timeout() / PART;
    let Ok(Ok(Some(other))) = tokio::time::timeout(limit, other_kind(client, options)).await else { return };
    let path = lease.path();
    let how = if options.slots.is_some() { "without --slots" } else { "with --slots" };
    reporter.report(
        "two_kinds",
        format_args!(
            "{path:?} is also used {how}, by {other}: a semaphore and a mutex do not exclude each other; use \
             --slots on all hosts or on none"
        ),
    );
}

async fn other_kind(client: &Client, options: &Options) -> zklock::Result<Option<String>> {
    let directory = match options.slots {
        Some(_) => options.path.clone(),
        None => format!("{}/leases", options.path),
    };
    let Some(listing) = list(client, &directory).await? else { return Ok(None) };
    let (mut certain, mut others) = (Vec::new(), Vec::new());
    for name in &listing.names {
        match Child::of(name, &listing) {
            Child::Contender(_) => certain.push(name),
            Child::Ambiguous(_) => others.push(name),
            Child::Directory => {}
        }
    }
    for name in certain.into_iter().chain(others).take(MOST) {
        let node = format!("{directory}/{name}");
        match look(client, &node).await {
            // A persistent node is a directory.
            Ok(Some(found)) if found.session_id != 0 => {
                let who = about(&found.data).map(|about| {
                    let label = about.label.as_deref().unwrap_or(&about.language);
                    format!("{label} ({}, process {})", about.host, about.pid)
                });
                return Ok(Some(Escaped(&who.unwrap_or(node)).to_string()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AuthFailed => {
                return Ok(Some(Escaped(&node).to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
