//! Tests for [`AcquiredStack`].

use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::timeout::Timeout;
use crate::error::ErrorKind;
use crate::internal::acquired::Released;
use crate::internal::acquired_stack::*;

/// A lease that is held until it is released or lost.
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

    fn release(&self, _: Timeout) -> Released {
        unreachable!("levels release nothing")
    }
}

/// Places in a program's code, as numbers. The code at `STATEMENT` enters and leaves a scope, the
/// code at `ENTER` only enters one, and the code at `EXIT` only leaves one.
const STATEMENT: usize = 1;
const ENTER: usize = 2;
const EXIT: usize = 3;

fn site(address: usize, code: usize) -> Site {
    Site { frame: Frame { address, code }, moves: false, through: 0 }
}

/// Returns the frame of a function with a `with` statement.
fn function(address: usize) -> Site {
    site(address, STATEMENT)
}

fn generator(address: usize) -> Site {
    Site { moves: true, ..function(address) }
}

/// Adds a level with the handle `number`, and with a scope of function 1 if one is given.
fn push<'a>(
    levels: &AcquiredStack<u8, &'a str>,
    owner: OwnerId,
    number: u8,
    scope: Option<&'a str>,
) -> Arc<Fake> {
    enter(levels, owner, number, scope.map(|scope| (function(1), scope)))
}

fn enter<'a>(
    levels: &AcquiredStack<u8, &'a str>,
    owner: OwnerId,
    number: u8,
    scope: Option<(Site, &'a str)>,
) -> Arc<Fake> {
    let fake = Arc::<Fake>::default();
    levels.push(owner, Arc::clone(&fake) as _, number, scope);
    fake
}

/// Leaves a scope at this site. No other frame runs, and no owner has ended.
fn leave_at<'a>(levels: &AcquiredStack<u8, &'a str>, owner: OwnerId, site: Site) -> Exited<u8, &'a str> {
    let exit = Exit { owner, site, only: false };
    levels.leave(&exit, |_| (), |_| false, |()| false)
}

/// Leaves a scope in function 1 and returns it.
fn leave<'a>(levels: &AcquiredStack<u8, &'a str>, owner: OwnerId) -> Option<(u8, &'a str)> {
    match leave_at(levels, owner, function(1)) {
        Exited::Scope(number, scope) => Some((number, scope)),
        Exited::Nothing => None,
        Exited::Others => unreachable!("function 1 enters all scopes of its owner"),
    }
}

/// Returns the handle of a level that can be released.
fn releasable(saved: &SuspendedLevel<u8, &str>) -> Option<u8> {
    saved.releasable().map(|_| saved.0.handle)
}

#[test]
fn a_release_undoes_the_owner_s_newest_level() {
    let levels = AcquiredStack::new(true);
    let (one, other) = (OwnerId::new(), OwnerId::new());
    push(&levels, one, 1, None);
    push(&levels, one, 2, None);
    push(&levels, other, 3, None);
    assert_eq!(levels.newest(one, |number| *number), Some(2));
    assert_eq!(levels.take(one, |number| *number), Some(2));
    assert_eq!(levels.take(one, |number| *number), Some(1));
    assert_eq!(levels.take(one, |number| *number), None);
    assert_eq!(levels.newest(other, |number| *number), Some(3));
    assert_eq!(levels.newest(OwnerId::new(), |number| *number), None);
}

#[test]
fn without_re_entry_everybody_releases_the_newest() {
    let levels = AcquiredStack::new(false);
    push(&levels, OwnerId::new(), 1, None);
    push(&levels, OwnerId::new(), 2, None);
    let anybody = OwnerId::new();
    assert_eq!(levels.take(anybody, |number| *number), Some(2));
    assert_eq!(levels.take(anybody, |number| *number), Some(1));
    assert_eq!(levels.take(anybody, |number| *number), None);
}

#[test]
fn a_handle_can_be_made_when_it_is_first_asked_for() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    let fakes = [1, 2].map(|number| push(&levels, owner, number, None) as Arc<dyn Acquired>);
    assert_eq!(levels.change(&fakes[0], |number| std::mem::replace(number, 3)), Some(1));
    let (taken, _left) = levels.take_acquired(owner).unwrap();
    assert!(std::ptr::addr_eq(Arc::as_ptr(&taken), Arc::as_ptr(&fakes[1])));
    assert_eq!(levels.change(&fakes[1], |number| *number), None);
    assert_eq!(levels.newest(owner, |number| *number), Some(3));
}

#[test]
fn what_was_released_through_its_lease_is_forgotten() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    push(&levels, owner, 1, None);
    push(&levels, owner, 2, None).released.store(true, Ordering::Relaxed);
    assert_eq!(levels.newest(owner, |number| *number), Some(1));
    assert_eq!(levels.lock().len(), 1);
}

#[test]
fn a_lost_level_is_to_be_released() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    push(&levels, owner, 1, None).lost.store(true, Ordering::Relaxed);
    assert_eq!(levels.take(owner, |number| *number), Some(1));
}

#[test]
fn the_end_of_a_scope_undoes_its_own_level() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    push(&levels, owner, 1, Some("one"));
    push(&levels, owner, 2, None);
    push(&levels, owner, 3, Some("three"));
    push(&levels, owner, 4, None);
    assert_eq!(leave(&levels, owner), Some((3, "three")));
    assert_eq!(leave(&levels, owner), Some((1, "one")));
    assert_eq!(leave(&levels, owner), None);
    assert_eq!(levels.take(owner, |number| *number), Some(4));
    assert_eq!(levels.take(owner, |number| *number), Some(2));
}

#[test]
fn a_scope_outlasts_the_release_of_its_level() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    push(&levels, owner, 1, Some("one"));
    assert_eq!(levels.take(owner, |number| *number), Some(1));
    assert_eq!(levels.take(owner, |number| *number), None);
    push(&levels, owner, 2, Some("two")).released.store(true, Ordering::Relaxed);
    assert_eq!(levels.newest(owner, |number| *number), None);
    assert_eq!(leave(&levels, owner), Some((2, "two")));
    assert_eq!(leave(&levels, owner), Some((1, "one")));
}

#[test]
fn a_generator_ends_its_own_scope_whoever_runs_it() {
    let levels = AcquiredStack::new(true);
    let (one, other) = (OwnerId::new(), OwnerId::new());
    enter(&levels, one, 1, Some((generator(1), "one")));
    enter(&levels, other, 2, Some((generator(2), "two")));
    push(&levels, other, 3, Some("three"));
    assert_eq!(leave_at(&levels, other, generator(1)), Exited::Scope(1, "one"));
    // Generator 1 has no scope left.
    assert_eq!(leave_at(&levels, other, generator(1)), Exited::Others);
    assert_eq!(leave_at(&levels, OwnerId::new(), generator(2)), Exited::Scope(2, "two"));
    assert_eq!(leave(&levels, other), Some((3, "three")));
    assert_eq!(leave_at(&levels, other, generator(1)), Exited::Nothing);
}

#[test]
fn an_exit_of_another_owner_ends_nothing() {
    let levels = AcquiredStack::new(false);
    let (one, other) = (OwnerId::new(), OwnerId::new());
    push(&levels, one, 1, Some("one"));
    enter(&levels, one, 2, Some((site(7, ENTER), "two")));
    enter(&levels, one, 3, Some((generator(4), "three")));
    // Another owner makes these calls. Only the call from the frame of a running scope ends that
    // scope.
    for site in [function(1), function(9), site(7, EXIT), generator(9)] {
        let exit = Exit { owner: other, site, only: false };
        let left = levels.leave(&exit, |_| (), |_| true, |()| false);
        assert_eq!(left, if site == function(1) { Exited::Scope(1, "one") } else { Exited::Others });
    }
}

#[test]
fn a_call_that_is_written_out_ends_what_such_a_call_began() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    enter(&levels, owner, 1, Some((site(7, ENTER), "stack")));
    enter(&levels, owner, 2, Some((generator(3), "generator")));
    push(&levels, owner, 3, Some("statement"));
    let exit = Exit { owner, site: site(7, EXIT), only: false };
    let running = |frame: Frame| frame == function(1).frame;
    assert_eq!(levels.leave(&exit, |_| (), running, |()| false), Exited::Scope(1, "stack"));
    // This exit can also end the scope of a `with` statement, because the statement's frame might
    // have called the enter method explicitly.
    assert_eq!(levels.leave(&exit, |_| (), running, |()| false), Exited::Scope(3, "statement"));
    assert_eq!(levels.leave(&exit, |_| (), running, |()| false), Exited::Others);
    assert_eq!(leave_at(&levels, OwnerId::new(), generator(3)), Exited::Scope(2, "generator"));
}

#[test]
fn a_scope_of_an_owner_that_has_ended_is_ended_if_it_is_the_only_such_owner() {
    let levels = AcquiredStack::new(true);
    let (alive, gone, caller) = (OwnerId::new(), OwnerId::new(), OwnerId::new());
    enter(&levels, gone, 1, Some((site(7, ENTER), "gone")));
    enter(&levels, gone, 2, Some((site(7, ENTER), "gone as well")));
    enter(&levels, gone, 3, Some((generator(3), "gone, in a generator")));
    enter(&levels, alive, 4, Some((site(8, ENTER), "alive")));
    let exit = Exit { owner: caller, site: site(9, EXIT), only: false };
    let leave = || levels.leave(&exit, |scope| *scope, |_| false, |scope| scope.starts_with("gone"));
    assert_eq!(leave(), Exited::Scope(2, "gone as well"));
    enter(&levels, OwnerId::new(), 5, Some((site(9, ENTER), "gone, and not alone")));
    assert_eq!(leave(), Exited::Others);
    assert_eq!(levels.lock().len(), 4);
}

#[test]
fn an_object_that_was_entered_once_has_one_scope_to_end() {
    let levels = AcquiredStack::new(true);
    let own = |through, code| Site { through, ..site(7, code) };
    enter(&levels, OwnerId::new(), 1, Some((own(1, ENTER), "one")));
    enter(&levels, OwnerId::new(), 2, Some((own(0, ENTER), "of the lock")));
    let exit = |through, only| Exit { owner: OwnerId::new(), site: own(through, EXIT), only };
    let leave = |exit: Exit| levels.leave(&exit, |_| (), |_| false, |()| false);
    assert_eq!(leave(exit(1, false)), Exited::Others);
    assert_eq!(leave(exit(1, true)), Exited::Scope(1, "one"));
    assert_eq!(leave(exit(1, true)), Exited::Nothing);
    assert_eq!(leave(exit(2, true)), Exited::Nothing);
}

#[test]
fn what_is_not_acquired_again_still_has_a_scope_to_end() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    push(&levels, owner, 1, Some("outer"));
    enter(&levels, owner, 2, Some((function(2), "inner")));
    for saved in levels.save(owner) {
        levels.restore(saved.over());
    }
    assert_eq!(levels.newest(owner, |number| *number), None);
    assert_eq!(leave_at(&levels, owner, function(2)), Exited::Scope(2, "inner"));
    assert_eq!(leave(&levels, owner), Some((1, "outer")));
}

#[test]
fn an_owner_lets_go_for_a_while_and_its_scopes_end_in_their_order() {
    let levels = AcquiredStack::new(true);
    let (owner, other) = (OwnerId::new(), OwnerId::new());
    push(&levels, owner, 1, Some("one"));
    push(&levels, other, 2, None);
    push(&levels, owner, 3, None);
    // Released inside its scope.
    push(&levels, owner, 4, Some("four")).released.store(true, Ordering::Relaxed);
    let saved = levels.save(owner);
    assert_eq!(saved.iter().map(releasable).collect::<Vec<_>>(), [Some(1), Some(3), None]);
    assert_eq!((levels.newest(owner, |number| *number), leave(&levels, owner)), (None, None));
    for saved in saved {
        let Some(number) = releasable(&saved) else {
            levels.restore(saved);
            continue;
        };
        levels.restore(saved.renewed(Arc::<Fake>::default() as _, number + 10, |_| "renewed"));
    }
    assert_eq!(levels.newest(owner, |number| *number), Some(13));
    assert_eq!(leave(&levels, owner), Some((4, "four")));
    assert_eq!(leave(&levels, owner), Some((11, "renewed")));
    assert_eq!(leave(&levels, owner), None);
    assert_eq!(levels.take(other, |number| *number), Some(2));
}

#[test]
fn without_re_entry_whoever_holds_lets_go() {
    let levels = AcquiredStack::new(false);
    push(&levels, OwnerId::new(), 1, None);
    let saved = levels.save(OwnerId::new());
    assert_eq!(saved.iter().map(releasable).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn who_owns_a_lock_depends_on_re_entry() {
    let reentrant = AcquiredStack::<u8, &str>::new(true);
    assert!(reentrant.owned(Ok(true)).unwrap() && !reentrant.owned(Ok(false)).unwrap());
    let levels = AcquiredStack::new(false);
    assert!(!levels.owned(Ok(true)).unwrap());
    let fake = push(&levels, OwnerId::new(), 1, None);
    assert!(levels.owned(Ok(false)).unwrap());
    fake.lost.store(true, Ordering::Relaxed);
    assert!(!levels.owned(Ok(false)).unwrap());
    assert!(levels.owned(Err(Error::forked())).is_err() && reentrant.owned(Err(Error::forked())).is_err());
}

#[test]
fn who_has_nothing_to_release_is_told_why() {
    let message = |reentrant| AcquiredStack::<u8>::new(reentrant).not_held("thread", "/a").to_string();
    assert_eq!(message(true), "this thread has not acquired /a through this object");
    assert_eq!(message(false), "/a is not held through this object");
}

#[test]
fn a_garbage_collector_sees_everything_and_may_clear_it() {
    let levels = AcquiredStack::new(true);
    let owner = OwnerId::new();
    push(&levels, owner, 1, None);
    push(&levels, owner, 2, Some("two"));
    let mut seen = Vec::new();
    let visited: Result<(), ()> = levels.visit(|number, scope| {
        seen.push((*number, scope.copied()));
        Ok(())
    });
    assert_eq!((visited, seen), (Ok(()), vec![(1, None), (2, Some("two"))]));
    levels.clear();
    assert_eq!(leave(&levels, owner), None);
}

/// A handle that uses the lock object when it is dropped.
struct Nosy(Arc<AcquiredStack<Nosy>>);

impl Drop for Nosy {
    fn drop(&mut self) {
        assert!(self.0.levels.try_lock().is_ok(), "dropped while the list is locked");
    }
}

#[test]
fn no_handle_is_dropped_while_the_list_is_locked() {
    let levels = Arc::new(AcquiredStack::new(true));
    let owner = OwnerId::new();
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
    let levels = AcquiredStack::new(true);
    let (owner, other) = (OwnerId::new(), OwnerId::new());
    let left = push(&levels, owner, 1, None);
    push(&levels, owner, 2, Some("its scope ends it"));
    push(&levels, other, 3, None);
    push(&levels, owner, 4, None);
    let found = levels.left_by(owner, |number| *number < 4);
    assert_eq!(found.len(), 1);
    left.released.store(true, Ordering::Relaxed);
    assert!(!found[0].is_open());
    // Without re-entry any caller can release the level.
    let levels = AcquiredStack::new(false);
    push(&levels, owner, 1, None);
    assert!(levels.left_by(owner, |_| true).is_empty());
}
