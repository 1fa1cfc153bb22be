//! Which of the scopes of a shared lock object an exit ends.
//!
//! A language calls the object's exit, and does not say which of its scopes it means. Several owners may be inside at
//! once, and a scope in a generator may be left by an owner that never entered it: so the last one to enter is not
//! always the first to leave. The frame that entered is: a `with` statement enters and leaves in one frame. Only a call
//! of the exit that is written out, as a stack of scopes makes it, comes from a different frame.

use std::sync::Arc;

use super::acquired::Acquired;
use crate::lease::owner::OwnerId;

/// A frame of the program's call stack.
///
/// No two live frames have the same address. The address of a frame that has returned is used again, but a frame that
/// entered a scope and returned without leaving it rarely runs the code that leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it is.
    pub address: usize,
    /// The code that it runs.
    pub code: usize,
}

/// Where a scope is entered, or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The calling frame.
    pub frame: Frame,
    /// Whether different owners may run the frame, one after the other: it is a generator's.
    pub moves: bool,
    /// The object whose enter or exit is called: 0 for the lock itself, otherwise the number of one of its holds.
    pub through: u64,
}

/// An exit.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// The owner that calls it.
    pub owner: OwnerId,
    /// Where it is called.
    pub site: Site,
    /// Whether the object was entered only once, so that there is only one scope that can be meant.
    pub only: bool,
}

/// A scope that has not ended.
pub(super) struct Entered<B> {
    pub(super) acquired: Arc<dyn Acquired>,
    pub(super) owner: OwnerId,
    pub(super) site: Site,
    /// The binding's knowledge of the owner.
    pub(super) beginner: B,
}

impl Exit {
    /// Whether this is the frame that entered a scope. Frames that do not move stay with their owner.
    pub(super) fn is_of(&self, owner: OwnerId, site: &Site) -> bool {
        *site == self.site && (site.moves || owner == self.owner)
    }

    /// The scope that this exit ends, of those in the order in which they were entered.
    ///
    /// `runs`: whether a frame is on the caller's call stack. `ended`: whether an owner has ended. Neither is asked for
    /// an exit of the frame that entered.
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
        // A generator leaves nothing that it has not entered: what it entered was ended otherwise.
        if self.site.moves {
            return None;
        }
        // Entered by a call that is written out, or by a statement whose frame still runs. What a generator entered only
        // the generator leaves.
        let candidate = |one: &Entered<B>| one.site.through == self.site.through && !one.site.moves;
        let returned = |one: &&Entered<B>| candidate(one) && one.owner == self.owner && !runs(one.site.frame);
        newest(&returned)
            .or_else(|| newest(&|one| self.only && candidate(one)))
            .or_else(|| {
                // An owner that has ended does not leave its scopes itself, and its frames have returned. Of two such owners
                // nobody knows whose scope is meant.
                let abandoned =
                    |one: &Entered<B>| candidate(one) && one.owner != self.owner && ended(&one.beginner);
                let left: Vec<_> = entered.iter().filter(|one| abandoned(one)).collect();
                let newest = *left.last()?;
                left.iter().all(|one| one.owner == newest.owner).then_some(newest)
            })
            .or_else(|| newest(&|one| candidate(one) && one.owner == self.owner))
            // A coroutine that nobody awaits any more is closed by whoever finds it.
            .or_else(|| newest(&|one| one.site == self.site))
    }
}
