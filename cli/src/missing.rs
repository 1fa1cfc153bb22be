//! Explains a path that is not there: a lock that nobody uses, or a mistake in typing.

use zklock::Client;
use zklock::internal::{Escaped, list};

/// How much alike two names have to be, from 0 to 1, to suggest one for the other.
const ALIKE: f64 = 0.8;

/// Says that there is no such path, which of its parents is the nearest that exists, and the child that was perhaps
/// meant. `None` if the path exists, or nobody can tell. A request for each part of the path at most.
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
    format!("there is no such path; the nearest that exists is {above}{meant}")
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
            "there is no such path; the nearest that exists is /locks; did you mean /locks/nightly?"
        );
        assert_eq!(hint("gpu"), "there is no such path; the nearest that exists is /locks");
    }
}
