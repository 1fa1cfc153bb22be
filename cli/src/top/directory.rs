//! Derives the state of a lock from one listing of its directory. Sends no requests.

use zklock::internal::Listing;
use zklock::queue::{Kind, NodeName};

use crate::contender::Child;

/// Summary of a directory's children. It stores no list of names, because a directory can have very
/// many children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectorySummary {
    /// Number of contenders in the queue.
    pub(crate) contenders: usize,
    /// Number of holders: the first contender, and all readers directly behind it if it is a
    /// reader.
    pub(crate) holding: usize,
    /// Name of the first contender's node.
    pub(crate) head: Option<String>,
    pub(crate) mode: Mode,
    /// True if the directory is a semaphore. Its contenders are in subdirectories.
    pub(crate) semaphore: bool,
    /// True if the directory has children that are not contenders.
    pub(crate) has_inner: bool,
    /// Number of children that have been removed since the directory was created. A different
    /// `czxid` means that the directory was deleted and created again.
    pub(crate) gone: u32,
    pub(crate) czxid: i64,
    pub(crate) created: u32,
}

/// Mode in which a lock is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Mutex,
    Write,
    Read,
    Leader,
}

impl Mode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Write => "write",
            Self::Read => "read",
            Self::Leader => "leader",
        }
    }

    fn of(name: &NodeName) -> Self {
        match name.kind() {
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            _ if name.is_candidate() => Self::Leader,
            _ => Self::Mutex,
        }
    }
}

impl DirectorySummary {
    /// Summarizes a listing. Also returns the names of the children that are not contenders and can
    /// have locks below them. For an ambiguous name, `contends` returns `true` if the child is a
    /// contender.
    pub(crate) fn of(listing: &Listing, contends: impl Fn(&str) -> Option<bool>) -> (Self, Vec<String>) {
        let mut summary = Self {
            gone: listing.gone(),
            created: listing.created,
            czxid: listing.czxid,
            // A semaphore has the children `leases` and `locks`. Check only `leases`, because users
            // often name the directory of all their locks `locks`.
            semaphore: listing.names.iter().any(|name| name == "leases"),
            ..Self::default()
        };
        let (mut names, mut inner) = (Vec::new(), Vec::new());
        for name in &listing.names {
            match Child::of(name, listing) {
                Child::Contender(node) => names.push(node),
                Child::Directory => inner.push(name.clone()),
                Child::Ambiguous(node) => match contends(name) {
                    Some(true) => names.push(node),
                    Some(false) => inner.push(name.clone()),
                    // The child was deleted meanwhile.
                    None => {}
                },
            }
        }
        summary.contenders = names.len();
        summary.has_inner = !inner.is_empty();
        if let Some(head) = names.iter().min() {
            summary.mode = Mode::of(head);
            summary.head = Some(head.as_str().to_owned());
            let alone = names.iter().filter(|name| name.kind() != Kind::Read).min();
            let ahead = |name: &&NodeName| alone.is_none_or(|alone| *name < alone);
            summary.holding = names.iter().filter(ahead).count().max(1);
        }
        (summary, inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::tests::named;

    fn summary<T: ToString>(names: &[T]) -> DirectorySummary {
        let names = names.iter().map(ToString::to_string).collect();
        DirectorySummary::of(&Listing { names, czxid: 1, created: 9 }, |_| None).0
    }

    #[test]
    fn the_lowest_number_holds_whatever_the_order_of_the_names() {
        let seen = summary(&[named("lock-", 2), named("lock-", 1), "config".to_owned()]);
        assert_eq!((seen.contenders, seen.holding, seen.mode), (2, 1, Mode::Mutex));
        assert_eq!(seen.head, Some(named("lock-", 1)));
        assert_eq!((seen.gone, seen.has_inner), (6, true));
    }

    #[test]
    fn readers_hold_together_up_to_the_first_writer() {
        let names = [named("__READ__", 1), named("__READ__", 2), named("__WRIT__", 3), named("__READ__", 4)];
        let seen = summary(&names);
        assert_eq!((seen.contenders, seen.holding, seen.mode), (4, 2, Mode::Read));
        assert_eq!(summary(&names[2..]).holding, 1);
        assert_eq!(summary(&names[2..]).mode, Mode::Write);
    }

    #[test]
    fn nobody_holds_what_is_free() {
        let free = summary::<&str>(&[]);
        assert_eq!((free.holding, free.head), (0, None));
        assert!(summary(&["leases", "locks"]).semaphore);
        assert!(!summary(&["locks"]).semaphore);
    }

    #[test]
    fn a_directory_that_is_named_by_an_id_is_no_contender() {
        let names = ["10000000005", "10000000006", "10000000007", "4711004711"].map(str::to_owned).to_vec();
        let listing = Listing { names, czxid: 1, created: 9 };
        let contends = |name: &str| match name {
            "10000000005" => Some(false),
            "10000000006" => Some(true),
            _ => None,
        };
        let (seen, inner) = DirectorySummary::of(&listing, contends);
        assert_eq!((seen.contenders, seen.head.as_deref()), (1, Some("10000000006")));
        assert_eq!(inner, ["10000000005", "4711004711"]);
    }
}
