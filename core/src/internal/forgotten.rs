//! Warns about leases that a program forgets to release, and marks leases that a binding keeps
//! after the program has dropped them. For bindings to languages with a garbage collector.

use crate::lease::Lease;
use crate::lease::lease_set::Leases;

pub use crate::lease::{Forgotten, on_forgotten};

/// Marks a lease of a garbage-collected object. If the lease is dropped while it is held, it is
/// released and a warning is logged.
pub fn collectable(lease: Lease) -> Lease {
    lease.collectable()
}

/// Marks each of these leases like [`collectable`].
pub fn collectable_all(leases: Leases) -> Leases {
    leases.into_iter().map(collectable).collect()
}

/// Records that the binding keeps this lease until it is released or lost, even if the program
/// drops it. Reports mention this.
pub fn pin(lease: &Lease) {
    lease.pin();
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::internal::acquired::Acquired;
    use crate::internal::test_support::{client, held, lose, mutex, reentered, report};
    use crate::lease::owner::Owner;

    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn warnings(path: &str) -> Vec<String> {
        on_forgotten(|forgotten| {
            WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).push(forgotten.to_string());
        });
        let all = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|text| text.contains(path)).cloned().collect()
    }

    #[test]
    fn a_held_lease_that_is_dropped_warns_once_the_lock_is_free() {
        let path = "/forgotten";
        let client = client();
        let lock = mutex(&client, path, true);
        let owner = Owner::new();
        assert_eq!(warnings(path), [""; 0]);
        let (first, second) = (held(&lock, &owner, 1), reentered(&lock, &owner));
        drop(collectable(first));
        assert_eq!(warnings(path), [""; 0], "another lease of its owner is left");
        drop(collectable(second));
        let [warning] = &warnings(path)[..] else { panic!("{:?}", warnings(path)) };
        assert!(warning.starts_with("the lock /forgotten was released after 0."), "{warning}");
        assert!(!lock.owned_by(&owner).unwrap());
    }

    #[test]
    fn a_lease_that_was_released_or_lost_or_is_not_for_a_collector_drops_in_silence() {
        let path = "/in-silence";
        let client = client();
        let lock = mutex(&client, path, true);
        warnings(path);
        let [released, lost, plain] = [1, 2, 3].map(|number| held(&lock, &Owner::new(), number));
        let [released, lost] = [released, lost].map(collectable);
        released.release_in_background().unwrap();
        lose(&lock, 2);
        assert!(plain.check().is_ok());
        drop((released, lost, plain));
        assert_eq!(warnings(path), [""; 0]);
    }

    #[test]
    fn an_owner_that_ends_is_told_of_once_a_hold_and_keeps_the_lock() {
        let path = "/ended";
        let client = client();
        let lock = mutex(&client, path, true);
        let owner = Owner::new();
        warnings(path);
        let mut leases = Leases::default();
        leases.push(held(&lock, &owner, 1));
        leases.push(reentered(&lock, &owner));
        leases.push(held(&lock, &Owner::new(), 2));
        leases[2].release_in_background().unwrap();
        let leases = leases.into_arcs();
        Acquired::owner_ended(&leases, "thread");
        Acquired::owner_ended(&*leases[1], "thread");
        let [warning] = &warnings(path)[..] else { panic!("{:?}", warnings(path)) };
        assert!(
            warning.starts_with("a thread ended after 0.")
                && warning.contains("the lock /ended, which stays held")
        );
        assert!(lock.owned_by(&owner).unwrap());
        // The collector adds no second warning.
        leases[0].release_in_background().unwrap();
        let again = reentered(&lock, &owner);
        leases[1].release_in_background().unwrap();
        drop(collectable(again));
        assert!(!lock.owned_by(&owner).unwrap());
        assert_eq!(warnings(path).len(), 1);
    }

    #[test]
    fn a_hold_is_pinned_while_one_of_its_pinned_leases_is_left() {
        let client = client();
        let lock = mutex(&client, "/pinned", true);
        let owner = Owner::new();
        let first = held(&lock, &owner, 1);
        let [second, third] = [(); 2].map(|()| reentered(&lock, &owner));
        let pinned = || report(&lock, 1).unwrap().pinned;
        assert!(!pinned());
        pin(&first);
        pin(&first);
        pin(&second);
        assert!(pinned());
        first.release_in_background().unwrap();
        pin(&first);
        assert!(pinned());
        drop(second);
        assert!(!pinned());
        drop(third);
        assert!(report(&lock, 1).is_none());
    }
}
