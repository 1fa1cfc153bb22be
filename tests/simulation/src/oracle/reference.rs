//! A reference model of a lock's queue, which consists only of the nodes in the lock's directory,
//! ordered by sequence number.
//!
//! A writer may hold the lock if there is no older node. A reader may hold it if there is no older
//! writer. A permit may be held if there are fewer older nodes than permits. The model knows no
//! watches, replies or sessions. Each grant is compared with the nodes on the servers at that
//! instant.

use super::judge::{Mode, Oracle};

/// A grant that was not compared yet.
#[derive(Clone, Debug)]
pub struct Unchecked {
    pub directory: String,
    name: String,
    mode: Mode,
}

impl Unchecked {
    pub(super) fn new(node: &str, mode: Mode) -> Self {
        let (directory, name) = node.rsplit_once('/').unwrap_or_default();
        Self { directory: directory.to_owned(), name: name.to_owned(), mode }
    }

    /// Returns the nodes that should have blocked the grant, or no nodes if the granted node no
    /// longer exists.
    fn in_the_way<'a>(&self, names: &'a [String]) -> Vec<&'a str> {
        let own = number(&self.name);
        if !names.contains(&self.name) {
            return Vec::new();
        }
        // A node is older if its sequence number is smaller. Two nodes with the same number belong
        // to a writer that also acquires the read lock. Ignore nodes of the same client: the client
        // can have released them although the servers still have them.
        let others = names.iter().map(String::as_str).filter(|name| client(name) != client(&self.name));
        let older = others.filter(|name| number(name).is_some() && number(name) < own);
        match self.mode {
            Mode::Exclusive => older.collect(),
            Mode::Shared => older.filter(|name| !reads(name)).collect(),
            Mode::Permit(most) => {
                let older: Vec<_> = older.collect();
                if older.len() < most { Vec::new() } else { older }
            }
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let at = name.len().checked_sub(10)?;
    name.get(at..)?.parse().ok()
}

/// Returns the part of a name that all nodes of a session share.
fn client(name: &str) -> String {
    let name = name.strip_prefix("_c_").unwrap_or(name);
    name.chars().filter(char::is_ascii_hexdigit).take(16).collect()
}

fn reads(name: &str) -> bool {
    name.contains("__READ__") || name.contains("__rlock__")
}

impl Oracle {
    /// Returns the grants since the last call.
    pub fn take_unchecked(&mut self) -> Vec<Unchecked> {
        std::mem::take(&mut self.unchecked)
    }

    /// Compares a grant with the nodes in its directory.
    pub fn compare_with_reference(&mut self, grant: &Unchecked, names: &[String]) {
        let in_the_way = grant.in_the_way(names);
        if !in_the_way.is_empty() {
            let Unchecked { directory, name, .. } = grant;
            self.violation(format!(
                "{directory}/{name} is granted although {in_the_way:?} are ahead in the queue"
            ));
        }
    }
}
