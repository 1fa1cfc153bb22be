//! What one listing of a directory shows of its lock. Pure.

use zklock::internal::Listing;
use zklock::queue::{Kind, NodeName};

/// A directory's children, counted. Their names are not kept: there may be very many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Everyone in the queue.
    pub(crate) contenders: usize,
    /// The first, and the readers behind it that no writer separates from it.
    pub(crate) holding: usize,
    /// The name of the first.
    pub(crate) head: Option<String>,
    pub(crate) mode: Mode,
    /// Whether its contenders are one level deeper, as a semaphore's are.
    pub(crate) semaphore: bool,
    /// Whether it has children that are no contenders.
    pub(crate) has_inner: bool,
    /// How many have left, and the node that counts them.
    pub(crate) gone: u32,
    pub(crate) czxid: i64,
    pub(crate) created: u32,
}

/// As what a lock is held.
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

impl Look {
    /// What a listing shows; and the names of the children that are no contenders, which may have locks below them.
    pub(crate) fn of(listing: &Listing) -> (Self, Vec<String>) {
        let mut look = Self {
            gone: listing.gone(),
            created: listing.created,
            czxid: listing.czxid,
            // `locks` alone is a name that people give to the directory of all their locks.
            semaphore: listing.names.iter().any(|name| name == "leases"),
            ..Self::default()
        };
        let (mut names, mut inner) = (Vec::new(), Vec::new());
        for name in &listing.names {
            match NodeName::parse(name) {
                Some(name) => names.push(name),
                None => inner.push(name.clone()),
            }
        }
        look.contenders = names.len();
        look.has_inner = !inner.is_empty();
        if let Some(head) = names.iter().min() {
            look.mode = Mode::of(head);
            look.head = Some(head.as_str().to_owned());
            let alone = names.iter().filter(|name| name.kind() != Kind::Read).min();
            let ahead = |name: &&NodeName| alone.is_none_or(|alone| *name < alone);
            look.holding = names.iter().filter(ahead).count().max(1);
        }
        (look, inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(names: &[&str]) -> Look {
        let names = names.iter().map(ToString::to_string).collect();
        Look::of(&Listing { names, czxid: 1, created: 9 }).0
    }

    #[test]
    fn the_lowest_number_holds_whatever_the_order_of_the_names() {
        let seen = look(&["b-lock-0000000002", "z-lock-0000000001", "config"]);
        assert_eq!((seen.contenders, seen.holding, seen.mode), (2, 1, Mode::Mutex));
        assert_eq!(seen.head.as_deref(), Some("z-lock-0000000001"));
        assert_eq!((seen.gone, seen.has_inner), (6, true));
    }

    #[test]
    fn readers_hold_together_up_to_the_first_writer() {
        let names =
            ["a-__READ__0000000001", "b-__READ__0000000002", "c-__WRIT__0000000003", "d-__READ__0000000004"];
        let seen = look(&names);
        assert_eq!((seen.contenders, seen.holding, seen.mode), (4, 2, Mode::Read));
        assert_eq!(look(&names[2..]).holding, 1);
        assert_eq!(look(&names[2..]).mode, Mode::Write);
    }

    #[test]
    fn nobody_holds_what_is_free() {
        assert_eq!((look(&[]).holding, look(&[]).head), (0, None));
        assert!(look(&["leases", "locks"]).semaphore);
        assert!(!look(&["locks"]).semaphore);
    }
}
