//! `zklock once`: shows or deletes the slot record of a lock.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use zklock::internal::Escaped;
use zklock::internal::once::{NumberedPeriod, OnceRecord, forget, read, record_node};

use crate::connection::Connection;
use crate::duration::in_days;
use crate::failure::Failure;
use crate::session::with_client;
use crate::terminal_output::print;

const EXAMPLES: &str = "\
Exit status:
  0   a slot is recorded; with --forget, the record is deleted or there was none
  1   no slot is recorded

Examples:
  zklock once /jobs/report
  zklock once --forget /jobs/report   # allow the last slot to run again";

/// Show the slot of a lock that `zklock run --once`, or a program with `once`, has recorded last
///
/// The record is a node next to the lock's directory. Its path is the path of the directory with
/// .once appended.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The lock's path
    path: String,
    /// Delete the record, so that its slot may run again
    #[arg(long)]
    forget: bool,
    /// Print the record as JSON, with the token as text
    #[arg(long, conflicts_with = "forget")]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn once(options: &Options) -> Result<u8, Failure> {
    let (path, node) = (&options.path, record_node(&options.path));
    if options.forget {
        let (record, forgotten) = with_client(&options.connection, async |client| {
            // A record that cannot be parsed can still be deleted.
            let record = read(client, path).await.ok().flatten();
            Ok((record, forget(client, path).await?))
        })?;
        let slot = record.map_or_else(String::new, |record| format!(": {}", slot(&record)));
        if forgotten {
            print(format_args!("deleted the record {}{slot}\n", Escaped(&node)))?;
        } else {
            print(format_args!("no slot of {} is recorded\n", Escaped(path)))?;
        }
        return Ok(0);
    }
    let record = with_client(&options.connection, async |client| Ok(read(client, path).await?))?;
    match record {
        Some(record) if options.json => print(format_args!("{:#}\n", to_json(path, &record)))?,
        Some(record) => print(format_args!("{}\n  {}\n", Escaped(path), line(&record)))?,
        None => {
            if options.json {
                print("null\n")?;
            }
            return Err(Failure::new(1, format!("no slot of {} is recorded", Escaped(path))));
        }
    }
    Ok(0)
}

/// Formats a record for people.
pub(crate) fn line(record: &OnceRecord) -> String {
    let by = record.by.as_ref().map_or_else(String::new, |by| {
        let label = by.label.as_ref().map_or_else(String::new, |label| format!("{label} "));
        let who = format!("{label}({}, process {})", by.host, by.pid);
        format!("  by {}", Escaped(&who))
    });
    let at = if record.at.is_empty() { String::new() } else { format!("  at {}", Escaped(&record.at)) };
    format!("recorded  {}{at}{by}  token {}", slot(record), record.fencing_token)
}

/// Returns the slot of a record in words.
fn slot(record: &OnceRecord) -> String {
    match record.period {
        None => format!("slot {}", Escaped(&record.slot)),
        Some(period) => {
            let length = in_days(Duration::from_millis(period.millis));
            format!("period of {length}{}", begin(period))
        }
    }
}

/// Returns the start of a period, if it can be represented as a time.
fn begin(NumberedPeriod { millis, number }: NumberedPeriod) -> String {
    // The longest time that can be written.
    let written = Duration::from_secs(253_402_300_799);
    let since = millis.checked_mul(number).map(Duration::from_millis).filter(|since| *since <= written);
    since.map_or_else(String::new, |since| {
        format!(" from {}", humantime::format_rfc3339_seconds(UNIX_EPOCH + since))
    })
}

fn to_json(path: &str, record: &OnceRecord) -> Value {
    let OnceRecord { slot, period, at, by, fencing_token, .. } = record;
    json!({
        "path": path,
        "node": record_node(path),
        "slot": slot,
        "period": period.map(|period| period.millis),
        "number": period.map(|period| period.number),
        "at": at,
        "host": by.as_ref().map(|by| &by.host),
        "pid": by.as_ref().map(|by| by.pid),
        "label": by.as_ref().and_then(|by| by.label.as_ref()),
        "token": fencing_token.to_string(),
    })
}
