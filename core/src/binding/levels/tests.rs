//! What a lock object remembers of its levels, and what it forgets.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::acquired::Released;
use super::*;
use crate::error::ErrorKind;
use crate::patience::Patience;

/// Held until released or lost.
#[derive(Default)]
struct Fake {
    released: AtomicBool,
    lost: AtomicBool,
}

impl Acquired for Fake {
    fn check(&self) -> Result<()> {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost { Err(Error::new(ErrorKind::LockLost, "lost")) } else { Ok(()) }
    }

    fn is_open(&self) -> bool {
        !self.released.load(Ordering::Relaxed)
    }

    fn loss(&self) -> Option<Error> {
        self.check().err()
    }

    fn release(&self, _: Patience) -> Released {
        unreachable!("levels release nothing")
    }
}

/// Adds a level with this number as its handle, and its number in words as its scope.
fn push<'a>(levels: &Levels<u8, &'a str>, owner: Owner, number: u8, scope: Option<&'a str>) -> Arc<Fake> {
    let fake = Arc::<Fake>::default();
    levels.push(owner, Arc::clone(&fake) as _, number, scope);
    fake
}

/// The number of a level that can be released.
fn releasable(saved: &Saved<u8, &str>) -> Option<u8> {
    saved.releasable().map(|_| saved.0.handle)
}

#[test]
fn a_release_undoes_the_owner_s_newest_level() {
    let levels = Levels::new(true);
    let (one, other) = (Owner::new(), Owner::new());
    push(&levels, one, 1, None);
    push(&levels, one, 2, None);
    push(&levels, other, 3, None);
    assert_eq!(levels.newest(one, |number| *number), Some(2));
    assert_eq!(levels.take(one, |number| *number), Some(2));
    assert_eq!(levels.take(one, |number| *number), Some(1));
    assert_eq!(levels.take(one, |number| *number), None);
    assert_eq!(levels.newest(other, |number| *number), Some(3));
    assert_eq!(levels.newest(Owner::new(), |number| *number), None);
}

#[test]
fn without_re_entry_everybody_releases_the_newest() {
    let levels = Levels::new(false);
    push(&levels, Owner::new(), 1, None);
    push(&levels, Owner::new(), 2, None);
    let anybody = Owner::new();
    assert_eq!(levels.take(anybody, |number| *number), Some(2));
    assert_eq!(levels.take(anybody, |number| *number), Some(1));
    assert_eq!(levels.take(anybody, |number| *number), None);
}

#[test]
fn a_handle_can_be_made_when_it_is_first_asked_for() {
    let levels = Levels::new(true);
    let owner = Owner::new();
    let fakes = [1, 2].map(|number| push(&levels, owner, number, None) as Arc<dyn Acquired>);
    assert_eq!(levels.change(&fakes[0], |number| std::mem::replace(number, 3)), Some(1));
    let (taken, _left) = levels.take_acquired(owner).unwrap();
    assert!(std::ptr::addr_eq(Arc::as_ptr(&taken), Arc::as_ptr(&fakes[1])));
    assert_eq!(levels.change(&fakes[1], |number| *number), None);
    assert_eq!(levels.newest(owner, |number| *number), Some(3));
}

#[test]
fn what_was_released_through_its_lease_is_forgotten() {
    let levels = Levels::new(true);
    let owner = Owner::new();
    push(&levels, owner, 1, None);
    push(&levels, owner, 2, None).released.store(true, Ordering::Relaxed);
    assert_eq!(levels.newest(owner, |number| *number), Some(1));
    assert_eq!(levels.lock().len(), 1);
}

#[test]
fn a_lost_level_is_to_be_released() {
    let levels = Levels::new(true);
    let owner = Owner::new();
    push(&levels, owner, 1, None).lost.store(true, Ordering::Relaxed);
    assert_eq!(levels.take(owner, |number| *number), Some(1));
}

#[test]
fn the_end_of_a_scope_undoes_its_own_level() {
    let levels = Levels::new(true);
    let owner = Owner::new();
    push(&levels, owner, 1, Some("one"));
    push(&levels, owner, 2, None);
    push(&levels, owner, 3, Some("three"));
    push(&levels, owner, 4, None);
    assert_eq!(levels.leave(owner), Some((3, "three")));
    assert_eq!(levels.leave(owner), Some((1, "one")));
    assert_eq!(levels.leave(owner), None);
    assert_eq!(levels.take(owner, |number| *number), Some(4));
    assert_eq!(levels.take(owner, |number| *number), Some(2));
}

#[test]
fn a_scope_outlasts_the_release_of_its_level() {
    let levels = Levels::new(true);
    let owner = Owner::new();
    push(&levels, owner, 1, Some("one"));
    assert_eq!(levels.take(owner, |number| *number), Some(1));
    assert_eq!(levels.take(owner, |number| *number), None);
    push(&levels, owner, 2, Some("two")).released.store(true, Ordering::Relaxed);
    assert_eq!(levels.newest(owner, |number| *number), None);
    assert_eq!(levels.leave(owner), Some((2, "two")));
    assert_eq!(levels.leave(owner), Some((1, "one")));
}

#[test]
fn a_scope_may_be_left_by_somebody_else() {
    let levels = Levels::new(true);
    let (one, other) = (Owner::new(), Owner::new());
    push(&levels, one, 1, Some("one"));
    push(&levels, other, 2, Some("two"));
    assert_eq!(levels.leave(one), Some((1, "one")));
    assert_eq!(levels.leave(one), Some((2, "two")));
}

#[test]
fn an_owner_lets_go_for_a_while_and_its_scopes_end_in_their_order() {
    let levels = Levels::new(true);
    let (owner, other) = (Owner::new(), Owner::new());
    push(&levels, owner, 1, Some("one"));
    push(&levels, other, 2, None);
    push(&levels, owner, 3, None);
    // Released in its scope.
    push(&levels, owner, 4, Some("four")).released.store(true, Ordering::Relaxed);
    let saved = levels.save(owner);
    assert_eq!(saved.iter().map(releasable).collect::<Vec<_>>(), [Some(1), Some(3), None]);
    assert_eq!((levels.newest(owner, |number| *number), levels.leave(owner)), (None, None));
    for saved in saved {
        let Some(number) = releasable(&saved) else {
            levels.restore(saved);
            continue;
        };
        levels.restore(saved.renewed(Arc::<Fake>::default() as _, number + 10, |_| "renewed"));
    }
    assert_eq!(levels.newest(owner, |number| *number), Some(13));
    assert_eq!(levels.leave(owner), Some((4, "four")));
    assert_eq!(levels.leave(owner), Some((11, "renewed")));
    assert_eq!(levels.leave(owner), None);
    assert_eq!(levels.take(other, |number| *number), Some(2));
}

#[test]
fn without_re_entry_whoever_holds_lets_go() {
    let levels = Levels::new(false);
    push(&levels, Owner::new(), 1, None);
    let saved = levels.save(Owner::new());
    assert_eq!(saved.iter().map(releasable).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn who_owns_a_lock_depends_on_re_entry() {
    let reentrant = Levels::<u8, &str>::new(true);
    assert!(reentrant.owned(Ok(true)).unwrap() && !reentrant.owned(Ok(false)).unwrap());
    let levels = Levels::new(false);
    assert!(!levels.owned(Ok(true)).unwrap());
    let fake = push(&levels, Owner::new(), 1, None);
    assert!(levels.owned(Ok(false)).unwrap());
    fake.lost.store(true, Ordering::Relaxed);
    assert!(!levels.owned(Ok(false)).unwrap());
    assert!(levels.owned(Err(Error::forked())).is_err() && reentrant.owned(Err(Error::forked())).is_err());
}

#[test]
fn who_has_nothing_to_release_is_told_why() {
    let message = |reentrant| Levels::<u8>::new(reentrant).not_held("thread", "/a").to_string();
    assert_eq!(message(true), "this thread has not acquired /a through this object");
    assert_eq!(message(false), "/a is not held through this object");
}

#[test]
fn a_garbage_collector_sees_everything_and_may_clear_it() {
    let levels = Levels::new(true);
    let owner = Owner::new();
    push(&levels, owner, 1, None);
    push(&levels, owner, 2, Some("two"));
    let mut seen = Vec::new();
    let visited: Result<(), ()> = levels.visit(|number, scope| {
        seen.push((*number, scope.copied()));
        Ok(())
    });
    assert_eq!((visited, seen), (Ok(()), vec![(1, None), (2, Some("two"))]));
    levels.clear();
    assert_eq!(levels.leave(owner), None);
}

/// A handle that uses the lock object when it is dropped.
struct Nosy(Arc<Levels<Nosy>>);

impl Drop for Nosy {
    fn drop(&mut self) {
        assert!(self.0.levels.try_lock().is_ok(), "dropped while the list is locked");
    }
}

#[test]
fn no_handle_is_dropped_while_the_list_is_locked() {
    let levels = Arc::new(Levels::new(true));
    let owner = Owner::new();
    let push = || {
        let fake = Arc::<Fake>::default();
        levels.push(owner, Arc::clone(&fake) as _, Nosy(Arc::clone(&levels)), None);
        fake
    };
    push();
    push().released.store(true, Ordering::Relaxed);
    levels.newest(owner, |_| ());
    push().released.store(true, Ordering::Relaxed);
    levels.take(owner, |_| ());
    assert!(levels.lock().is_empty());
}

#[test]
fn an_owner_leaves_what_only_it_can_release() {
    let levels = Levels::new(true);
    let (owner, other) = (Owner::new(), Owner::new());
    let left = push(&levels, owner, 1, None);
    push(&levels, owner, 2, Some("its scope ends it"));
    push(&levels, other, 3, None);
    push(&levels, owner, 4, None);
    let found = levels.left_by(owner, |number| *number < 4);
    assert_eq!(found.len(), 1);
    left.released.store(true, Ordering::Relaxed);
    assert!(!found[0].is_open());
    // Without re-entry anybody can release it.
    let levels = Levels::new(false);
    push(&levels, owner, 1, None);
    assert!(levels.left_by(owner, |_| true).is_empty());
}
