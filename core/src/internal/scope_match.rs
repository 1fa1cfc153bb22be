//! Finds the scope that a call of an exit method ends, if several scopes use the same lock object.
//!
//! The exit method has no argument for the scope. The newest scope is not always the first to end:
//! several owners can be inside scopes at the same time, and one owner can leave a generator's
//! scope that another owner entered.
//!
//! Usually the stack frame identifies the scope, because a `with` statement enters and leaves its
//! scope in the same frame. Only an explicit call of the exit method, for example by `ExitStack`,
//! comes from a different frame.

use std::sync::Arc;

use super::acquired::Acquired;
use crate::lease::owner::OwnerId;

/// A frame of the program's call stack.
///
/// No two live frames have the same address, but a new frame can reuse the address of a frame that
/// has returned. A wrong match is therefore possible, but rare: both frames must run the same code,
/// the first must have entered a scope without leaving it, and the second must leave a scope that
/// it has not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Address of the frame.
    pub address: usize,
    /// Identity of the code that the frame runs.
    pub code: usize,
}

/// The place in the program at which a scope is entered or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The calling frame.
    pub frame: Frame,
    /// `true` for a generator's frame, which several owners can run, one after the other.
    pub moves: bool,
    /// The object whose enter or exit method is called: 0 for the lock object itself, or the number
    /// of one of its `hold` objects.
    pub through: u64,
}

/// A call of an exit method.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// The owner that calls it.
    pub owner: OwnerId,
    /// The place from which it is called.
    pub site: Site,
    /// `true` if the object has only one scope, so the call must belong to it.
    pub only: bool,
}

/// A scope that has not ended.
pub(super) struct Entered<B> {
    pub(super) acquired: Arc<dyn Acquired>,
    pub(super) owner: OwnerId,
    pub(super) site: Site,
    /// The binding's data about the owner.
    pub(super) beginner: B,
}

impl Exit {
    /// Returns `true` if the calling frame has entered the scope. Its owner must also be the same,
    /// unless the frame is a generator's, which several owners can run.
    pub(super) fn is_of(&self, owner: OwnerId, site: &Site) -> bool {
        *site == self.site && (site.moves || owner == self.owner)
    }

    /// Returns the scope that this call of the exit method ends. `entered` contains the scopes in
    /// the order in which they were entered.
    ///
    /// `runs` returns `true` if a frame is on the caller's call stack. `ended` returns `true` if an
    /// owner has ended. Neither function is called if the calling frame has entered one of the
    /// scopes.
    pub(super) fn choose<'a, B>(
        &self,
        entered: &'a [Entered<B>],
        runs: impl Fn(Frame) -> bool,
        ended: impl Fn(&B) -> bool,
    ) -> Option<&'a Entered<B>> {
        let newest = |accept: &dyn Fn(&&'a Entered<B>) -> bool| entered.iter().rev().find(accept);
        if let Some(own) = newest(&|one| self.is_of(one.owner, &one.site)) {
            return Some(own);
        }
        // A generator leaves only scopes that it entered. The list contains none of them, so the
        // scope has already ended.
        if self.site.moves {
            return None;
        }
        // Scopes of generators are not candidates, because only the generator itself leaves them.
        // Prefer a scope whose frame has returned. Such a scope was entered by an explicit call,
        // because a `with` statement leaves its scope before its frame returns.
        let candidate = |one: &Entered<B>| one.site.through == self.site.through && !one.site.moves;
        let returned = |one: &&Entered<B>| candidate(one) && one.owner == self.owner && !runs(one.site.frame);
        newest(&returned)
            .or_else(|| newest(&|one| self.only && candidate(one)))
            .or_else(|| {
                // The owner of the scope might have ended without leaving it. With two such owners,
                // the right one is unknown.
                let abandoned =
                    |one: &Entered<B>| candidate(one) && one.owner != self.owner && ended(&one.beginner);
                let left: Vec<_> = entered.iter().filter(|one| abandoned(one)).collect();
                let newest = *left.last()?;
                left.iter().all(|one| one.owner == newest.owner).then_some(newest)
            })
            .or_else(|| newest(&|one| candidate(one) && one.owner == self.owner))
            // Accept any owner, because any owner can close a coroutine that is no longer awaited.
            .or_else(|| newest(&|one| one.site == self.site))
    }
}
