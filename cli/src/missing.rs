//! Explains to the user why a path does not exist: the lock is not in use, or the path contains a
//! typo.

use zklock::Client;
use zklock::internal::{Escaped, list};

/// Minimum similarity of two names, from 0 to 1, for a suggestion.
const ALIKE: f64 = 0.8;

/// Returns a message that the path does not exist. The message names the nearest existing parent,
/// and suggests a child with a similar name. Returns `None` if the path exists or cannot be
/// checked. Sends at most one request for each part of the path.
pub(crate) async fn missing(client: &Client, path: &str) -> Option<String> {
    if list(client, path).await.ok()?.is_some() {
        return None;
    }
    let mut rest = path;
    while rest != "/" {
        let (parent, name) = rest.rsplit_once('/')?;
        rest = if parent.is_empty() { "/" } else { parent };
        if let Some(listing) = list(client, rest).await.ok()? {
            return Some(hint(rest, name, &listing.names));
        }
    }
    None
}

fn hint(parent: &str, name: &str, names: &[String]) -> String {
    let above = Escaped(parent);
    let alike = |other: &&String| strsim::jaro_winkler(name, other);
    let likely = names.iter().max_by(|one, other| alike(one).total_cmp(&alike(other)));
    let meant = likely.filter(|other| alike(other) >= ALIKE).map_or_else(String::new, |other| {
        let parent = if parent == "/" { "" } else { parent };
        format!("; did you mean {}?", Escaped(&format!("{parent}/{other}")))
    });
    format!("this path does not exist; the nearest existing path is {above}{meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_much_alike_is_suggested() {
        let names = ["orders", "nightly"].map(str::to_owned);
        let hint = |name| hint("/locks", name, &names);
        assert_eq!(
            hint("nigthly"),
            "this path does not exist; the nearest existing path is /locks; did you mean /locks/nightly?"
        );
        assert_eq!(hint("gpu"), "this path does not exist; the nearest existing path is /locks");
    }
}
