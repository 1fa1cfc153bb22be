//! `zklock break` and `zklock revoke`: operators use them to remove a contender, or to ask it to
//! leave.

use std::io::{IsTerminal, stdin};

use clap::Args;
use zklock::Client;
use zklock::internal::Escaped;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::queue::{self, Place, Role, age};
use crate::session::with_client;
use crate::terminal_output::{ask, print};

/// Remove a contender from the queue of a lock, even if it holds the lock
///
/// The next waiter is granted the lock immediately, possibly before the holder learns that it has
/// lost the lock. Stop the holder's process first if you can. `zklock ls PATH` shows the nodes. Asks
/// for confirmation first.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  zklock break /locks/nightly _c_2f7c…-lock-0000000007\n  zklock break /locks/nightly --holder backup"
)]
pub(crate) struct Break {
    #[command(flatten)]
    which: Which,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Ask a contender to give up its lock, as Curator's `Revoker` does
///
/// Programs can ignore such requests. A program that listens for them decides what to do
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  zklock revoke /locks/nightly _c_2f7c…-lock-0000000007\n  zklock revoke /locks/nightly --holder backup"
)]
pub(crate) struct Revoke {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args, Debug)]
struct Which {
    /// The lock's path
    path: String,
    /// The contender's node, as `zklock ls` shows it: its name, or its full path
    #[arg(required_unless_present = "holder", conflicts_with = "holder")]
    node: Option<String>,
    /// The label of the holder, instead of its node; no other holder may have the same label
    #[arg(long, value_name = "LABEL")]
    holder: Option<String>,
}

impl Which {
    /// Returns the contender that the options select. Fails if it is not in the queue of this lock.
    async fn find(&self, client: &Client) -> Result<Place, Failure> {
        let (mut places, shown) = (queue::read(client, &self.path).await?, Escaped(&self.path));
        if let Some(label) = &self.holder {
            places.retain(|place| place.role == Role::Holds && place.label() == Some(label));
        } else {
            let node = self.node.as_deref().unwrap_or_default();
            let full = if node.starts_with('/') { node.to_owned() } else { format!("{}/{node}", self.path) };
            places.retain(|place| place.contender.node == full);
        }
        match places.len() {
            1 => Ok(places.remove(0)),
            0 => {
                let what = match (&self.holder, &self.node) {
                    (Some(label), _) => format!("holder with the label {}", Escaped(label)),
                    (None, node) => format!("contender {}", Escaped(node.as_deref().unwrap_or_default())),
                };
                Err(Failure::new(
                    1,
                    format!("{shown} has no {what}; run `zklock ls {shown}` to list its contenders"),
                ))
            }
            many => {
                let nodes = places.iter().map(|place| Escaped(&place.contender.node).to_string());
                let nodes = nodes.collect::<Vec<_>>().join("\n  ");
                Err(Failure::new(
                    1,
                    format!(
                        "{many} holders of {shown} have this label; pass one of these nodes instead:\n  {nodes}"
                    ),
                ))
            }
        }
    }
}

pub(crate) fn break_lock(options: &Break) -> Result<u8, Failure> {
    if !options.yes && !stdin().is_terminal() {
        return Err(Failure::usage(
            "standard input is not a terminal, so zklock cannot ask for confirmation; pass --yes to break the lock \
             without it",
        ));
    }
    with_client(&options.connection, async |client| {
        let place = options.which.find(client).await?;
        let (who, role, since) = (place.who(), place.role.as_str(), age(place.since()));
        if !options.yes {
            let question = format!(
                "{who} {role}, in the queue for {since}. The next contender can get the lock immediately. Break \
                 it? [y/N] "
            );
            if !ask(&question)? {
                return Err(Failure::new(1, "nothing was changed"));
            }
        }
        client.break_lock(&place.contender.node).await?;
        print(format_args!("broken: {who}\n"))?;
        Ok(0)
    })
}

pub(crate) fn revoke(options: &Revoke) -> Result<u8, Failure> {
    with_client(&options.connection, async |client| {
        let place = options.which.find(client).await?;
        client.revoke(&place.contender.node).await?;
        print(format_args!("requested a release from: {}\n", place.who()))?;
        Ok(0)
    })
}
