//! `zklock ls`: who holds a lock, who waits for it, since when, from where.

use clap::Args;
use serde_json::Value;
use zklock::Client;
use zklock::internal::{Escaped, children};

use crate::connection::Connection;
use crate::failure::Failure;
use crate::queue::{self, Place, age};
use crate::session::with_client;
use crate::terminal_output::print;

const EXAMPLES: &str = "\
Examples:
  zklock ls /locks/nightly
  zklock ls --recursive /locks
  zklock ls --json /locks/nightly | jq '.[0].host'";

/// Show who holds a lock and who waits for it, since when and from where
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The lock's path
    path: String,
    /// Show all locks below PATH too
    #[arg(short, long)]
    recursive: bool,
    /// One JSON array of all contenders: times in milliseconds since 1970, tokens as text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn ls(options: &Options) -> Result<u8, Failure> {
    let locks = with_client(&options.connection, async |client| {
        if options.recursive { below(client, &options.path).await } else { one(client, &options.path).await }
    })?;
    if options.json {
        let all = locks.iter().flat_map(|(path, places)| places.iter().map(|place| place.to_json(path)));
        print(format_args!("{:#}\n", Value::Array(all.collect())))?;
    } else {
        let empty = format!("nobody holds or waits for {}\n", Escaped(&options.path));
        let text: String = locks.iter().map(|(path, places)| table(path, places)).collect();
        print(if text.is_empty() { empty } else { text })?;
    }
    Ok(0)
}

type Locks = Vec<(String, Vec<Place>)>;

async fn one(client: &Client, path: &str) -> Result<Locks, Failure> {
    let places = queue::read(client, path).await?;
    Ok(if places.is_empty() { Vec::new() } else { vec![(path.to_owned(), places)] })
}

/// The locks at and below a path that somebody holds or waits for, by their paths.
pub(crate) async fn below(client: &Client, path: &str) -> Result<Locks, Failure> {
    let mut found = Locks::new();
    let mut pending = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        let names = match children(client, &path).await {
            // What may not be read is no reason to show nothing.
            Err(error) if error.code() == "AUTH_FAILED" && !found.is_empty() => continue,
            names => names?,
        };
        // `locks` alone is what people call the directory of all their locks.
        let semaphore = names.iter().any(|name| name == "leases");
        if semaphore || names.iter().any(|name| is_contender(name)) {
            found.extend(one(client, &path).await?);
        }
        let parent = if path == "/" { "" } else { &path };
        let inner = |name: &&String| {
            !(is_contender(name) || semaphore && matches!(name.as_str(), "leases" | "locks"))
        };
        pending.extend(names.iter().filter(inner).map(|name| format!("{parent}/{name}")));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Whether a child's name ends in the ten digits of a contender's.
fn is_contender(name: &str) -> bool {
    name.len() >= 10 && name.bytes().rev().take(10).all(|byte| byte.is_ascii_digit())
}

fn table(path: &str, places: &[Place]) -> String {
    let mut text = format!("{}\n", Escaped(path));
    let rows: Vec<_> = places.iter().map(|place| (place, place.who(), age(place.since()))).collect();
    let widest = |of: fn(&(&Place, String, String)) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let (who_width, age_width) = (widest(|row| row.1.chars().count()), widest(|row| row.2.len()));
    for (place, who, age) in &rows {
        let node = Escaped(&place.contender.node).to_string();
        let kind = if place.contender.reader { "  reader" } else { "" };
        let (role, token) = (place.role.as_str(), place.contender.fencing_token);
        let line = format!("  {role}  {who:who_width$}  for {age:age_width$}  token {token}  {node}{kind}\n");
        text.push_str(&line);
    }
    text
}
