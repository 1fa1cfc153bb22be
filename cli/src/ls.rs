//! `zklock ls`: lists the holders and the waiters of a lock, with their hosts and their times in
//! the queue.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;
use zklock::Client;
use zklock::internal::once::{read, record_node};
use zklock::internal::{Escaped, list};

use crate::connection::Connection;
use crate::contender::Child;
use crate::failure::Failure;
use crate::missing::missing;
use crate::once::line;
use crate::queue::{self, Place, age};
use crate::session::with_client;
use crate::terminal_output::{print, report_problem};

const EXAMPLES: &str = "\
Examples:
  zklock ls /locks/nightly
  zklock ls --recursive /locks
  zklock ls --verbose /locks/nightly
  zklock ls --json /locks/nightly | jq '.[0].host'";

/// Show the holders and waiters of a lock, with their hosts and times
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The lock's path
    path: String,
    /// Also show all locks below PATH
    #[arg(short, long)]
    recursive: bool,
    /// Also show the owner in each process: a thread, a task or a scope
    #[arg(short, long)]
    verbose: bool,
    /// Print a JSON array of all contenders, with times in milliseconds since 1970, and tokens as
    /// text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn ls(options: &Options) -> Result<u8, Failure> {
    if options.path == "/" && !options.recursive {
        return Err(Failure::usage(
            "/ is not a lock: use `zklock ls --recursive /` to list all locks below it",
        ));
    }
    let (locks, records, missing) = with_client(&options.connection, async |client| {
        let path = &options.path;
        let (locks, recorded) = if options.recursive {
            below(client, path).await?
        } else {
            (one(client, path).await?, Vec::new())
        };
        let records = if options.json { Vec::new() } else { records(client, path, recorded).await };
        let nothing = locks.is_empty() && records.is_empty();
        let missing = if nothing { missing(client, path).await } else { None };
        Ok((locks, records, missing))
    })?;
    if options.json {
        let all = locks.iter().flat_map(|(path, places)| places.iter().map(|place| place.to_json(path)));
        print(format_args!("{:#}\n", Value::Array(all.collect())))?;
        // Programs read standard output.
        if let Some(missing) = missing {
            report_problem(format_args!("{}: {missing}", Escaped(&options.path)));
        }
        return Ok(0);
    }
    let mut shown: BTreeMap<&str, String> =
        locks.iter().map(|(path, places)| (path.as_str(), table(path, places, options.verbose))).collect();
    for (path, record) in &records {
        let text = shown.entry(path).or_insert_with(|| format!("{}\n", Escaped(path)));
        text.extend(["  ", record, "\n"]);
    }
    let text: String = shown.into_values().collect();
    if !text.is_empty() {
        print(text)?;
        return Ok(0);
    }
    let why = missing.map_or_else(String::new, |missing| format!(": {missing}"));
    let below = if options.recursive { ", or for locks below it" } else { "" };
    print(format_args!("nobody holds or waits for {}{below}{why}\n", Escaped(&options.path)))?;
    Ok(0)
}

type Locks = Vec<(String, Vec<Place>)>;

async fn one(client: &Client, path: &str) -> Result<Locks, Failure> {
    let places = queue::read(client, path).await?;
    Ok(if places.is_empty() { Vec::new() } else { vec![(path.to_owned(), places)] })
}

/// Returns the recorded slots (see `--once`) of the lock at `path` and of the locks at `others`.
/// Each element is the path of a lock and a line of text.
async fn records(client: &Client, path: &str, others: Vec<String>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for path in std::iter::once(path.to_owned()).chain(others) {
        match read(client, &path).await {
            Ok(Some(record)) => all.push((path, line(&record))),
            Ok(None) => {}
            // Path of the root, which is not a lock.
            Err(error) if error.argument() == Some("path") && path == "/" => {}
            Err(error) => all.push((path, format!("recorded  {error}"))),
        }
    }
    all
}

/// Finds locks at and below a path. Returns the locks that have contenders, in the order of their
/// paths, and the paths of the locks that have a recorded slot.
async fn below(client: &Client, path: &str) -> Result<(Locks, Vec<String>), Failure> {
    let (mut found, mut recorded) = (Locks::new(), Vec::new());
    let mut pending = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        let listing = match list(client, &path).await {
            // Skip directories without read permission, and show the rest.
            Err(error) if error.code() == "AUTH_FAILED" && !found.is_empty() => continue,
            listing => listing?.unwrap_or_default(),
        };
        // `locks` is a common name for the directory of all locks.
        let semaphore = listing.names.iter().any(|name| name == "leases");
        let parent = if path == "/" { "" } else { &path };
        let mut inner: Vec<_> = listing
            .names
            .iter()
            .filter(|name| Child::of(name, &listing) == Child::Directory)
            .filter(|name| !(semaphore && matches!(name.as_str(), "leases" | "locks")))
            .filter(|name| path != "/" || *name != "zookeeper")
            .map(|name| format!("{parent}/{name}"))
            .collect();
        // A node that records a slot is next to the lock's directory, but is not a lock itself.
        inner.retain(|path| match path.strip_suffix(&record_node("")) {
            Some(lock) if !lock.ends_with('/') => {
                recorded.push(lock.to_owned());
                false
            }
            _ => true,
        });
        // The root cannot be a lock, because clients cannot create it.
        let some = listing.names.iter().any(|name| Child::of(name, &listing) != Child::Directory);
        if path != "/" && (semaphore || some) {
            let (places, directories) = queue::read_directory(client, &path).await?;
            inner.extend(directories);
            if !places.is_empty() {
                found.push((path.clone(), places));
            }
        }
        pending.append(&mut inner);
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok((found, recorded))
}

fn table(path: &str, places: &[Place], verbose: bool) -> String {
    let mut text = format!("{}\n", Escaped(path));
    let who = |place: &Place| if verbose { place.who_inside() } else { place.who() };
    let rows: Vec<_> = places.iter().map(|place| (place, who(place), age(place.since()))).collect();
    let widest = |of: fn(&(&Place, String, String)) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let (who_width, age_width) = (widest(|row| row.1.chars().count()), widest(|row| row.2.len()));
    for (place, who, age) in &rows {
        let node = Escaped(&place.contender.node).to_string();
        let kind = match place {
            place if !place.is_ephemeral() => "  persistent",
            place if place.contender.reader => "  reader",
            _ => "",
        };
        let sharing: String =
            place.sharing().into_iter().flat_map(|option| ["  ".to_owned(), option]).collect();
        let (role, token) = (place.role.as_str(), place.contender.fencing_token);
        let line = format!(
            "  {role}  {who:who_width$}  for {age:age_width$}  token {token}  {node}{kind}{sharing}\n"
        );
        text.push_str(&line);
    }
    text
}
