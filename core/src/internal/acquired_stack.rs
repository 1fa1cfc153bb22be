//! What was acquired through one lock object, and by whom: for languages that release a lock rather than a lease.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acquired::Acquired;
use super::scope_match::{Entered, Exit, Frame, Site};
use crate::error::{Error, Result};
use crate::lease::owner::OwnerId;

/// The levels of one lock object, in the order in which they were acquired, each with the binding's handle `H` for it.
/// A level is undone by a release, or by the end of the scope that acquired it, for which the binding stores `S`.
///
/// Only owners that hold the lock have levels, so there are few; and a forgetful caller leaks none: dropping the
/// lock object drops them, which releases them.
///
/// No handle is dropped while the list is locked: dropping it may run the program's code, which may use the lock
/// object.
pub struct AcquiredStack<H, S = ()> {
    reentrant: bool,
    levels: Mutex<Vec<StackLevel<H, S>>>,
}

struct StackLevel<H, S> {
    /// Who acquired it. Without re-entry the lease itself has an owner of its own.
    owner: OwnerId,
    acquired: Arc<dyn Acquired>,
    /// False once a release has undone the level, so that only its scope is left.
    releasable: bool,
    handle: H,
    /// The scope that acquired it, if one did, and where it did.
    scope: Option<(Site, S)>,
}

/// The result of an exit.
#[derive(Debug, PartialEq, Eq)]
pub enum Exited<H, S> {
    /// This scope.
    Scope(H, S),
    /// Nothing: there is no scope that it could mean.
    Nothing,
    /// Nothing: there are scopes, but this exit is not theirs.
    Others,
}

/// A level of an owner that lets go of the lock for a while, as a condition variable does.
pub struct SuspendedLevel<H, S>(StackLevel<H, S>);

impl<H, S> fmt::Debug for SuspendedLevel<H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").field("releasable", &self.0.releasable).finish_non_exhaustive()
    }
}

impl<H, S> SuspendedLevel<H, S> {
    /// What was acquired, if there is something to release, and later to acquire again. Otherwise only the end of its
    /// scope is left.
    pub fn releasable(&self) -> Option<&Arc<dyn Acquired>> {
        self.0.releasable.then_some(&self.0.acquired)
    }

    /// The same level, of what was acquired in its place.
    #[must_use]
    pub fn renewed(self, acquired: Arc<dyn Acquired>, handle: H, scope: impl FnOnce(&H) -> S) -> Self {
        let scope = self.0.scope.map(|(site, _)| (site, scope(&handle)));
        Self(StackLevel { acquired, handle, scope, releasable: true, owner: self.0.owner })
    }

    /// The same level if it is not acquired again: only the end of its scope is left.
    #[must_use]
    pub fn over(self) -> Self {
        Self(StackLevel { releasable: false, ..self.0 })
    }
}

impl<H, S> fmt::Debug for AcquiredStack<H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Levels").field("reentrant", &self.reentrant).finish_non_exhaustive()
    }
}

impl<H, S> AcquiredStack<H, S> {
    /// No levels. Of a lock that does not re-enter, no caller is more the owner than another: a release undoes the
    /// newest level, whoever acquired it.
    #[must_use]
    pub fn new(reentrant: bool) -> Self {
        Self { reentrant, levels: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StackLevel<H, S>>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a level; with `scope`, one that the end of that scope is to undo, entered there.
    pub fn push(&self, owner: OwnerId, acquired: Arc<dyn Acquired>, handle: H, scope: Option<(Site, S)>) {
        self.lock().push(StackLevel { owner, acquired, releasable: true, handle, scope });
    }

    /// The newest level with something left to release: of `owner`, or without re-entry of any owner.
    pub fn newest<R>(&self, owner: OwnerId, get: impl FnOnce(&H) -> R) -> Option<R> {
        let mut levels = self.lock();
        let closed = forget_closed(&mut levels);
        let newest = self.find(&levels, owner).map(|at| get(&levels[at].handle));
        drop(levels);
        drop(closed);
        newest
    }

    /// Removes that level, for its release.
    pub fn take<R>(&self, owner: OwnerId, get: impl FnOnce(&H) -> R) -> Option<R> {
        self.remove(owner, |level| get(&level.handle)).map(|(taken, _)| taken)
    }

    /// The same, for who needs no handle to release it. With it comes what is left of the level, for the caller to drop
    /// after the release: if that runs the program's code, the code finds that the lock is released.
    pub fn take_acquired(&self, owner: OwnerId) -> Option<(Arc<dyn Acquired>, impl Sized + use<H, S>)> {
        self.remove(owner, |level| Arc::clone(&level.acquired))
    }

    fn remove<R>(
        &self,
        owner: OwnerId,
        get: impl FnOnce(&StackLevel<H, S>) -> R,
    ) -> Option<(R, Option<StackLevel<H, S>>)> {
        let mut levels = self.lock();
        let closed = forget_closed(&mut levels);
        let at = self.find(&levels, owner);
        let taken = at.map(|at| (get(&levels[at]), forget(&mut levels, at)));
        drop(levels);
        drop(closed);
        taken
    }

    /// Gives the handle of what was acquired to `change`, if there still is a level of it. `change` drops no handle.
    pub fn change<R>(&self, acquired: &Arc<dyn Acquired>, change: impl FnOnce(&mut H) -> R) -> Option<R> {
        let mut levels = self.lock();
        let level = levels.iter_mut().find(|level| is_same(&level.acquired, acquired))?;
        Some(change(&mut level.handle))
    }

    /// Removes all levels of `owner`, in order; without re-entry the one that is held, too, whoever acquired it.
    pub fn save(&self, owner: OwnerId) -> Vec<SuspendedLevel<H, S>> {
        let mut levels = self.lock();
        let closed = forget_closed(&mut levels);
        let newest = self.find(&levels, owner);
        let (mut saved, mut others) = (Vec::new(), Vec::new());
        for (place, level) in std::mem::take(&mut *levels).into_iter().enumerate() {
            if level.owner == owner || Some(place) == newest {
                saved.push(SuspendedLevel(level));
            } else {
                others.push(level);
            }
        }
        *levels = others;
        drop(levels);
        drop(closed);
        saved
    }

    /// Adds a level again.
    pub fn restore(&self, saved: SuspendedLevel<H, S>) {
        self.lock().push(saved.0);
    }

    /// Whether this object holds the lock, for whomever.
    pub fn any_held(&self) -> bool {
        self.lock().iter().any(|level| level.releasable && level.acquired.is_held())
    }

    /// Ends the scope that this exit means, and forgets its level, released or not: that of the frame that entered it.
    /// An exit of a different frame ends a scope of its owner; of another owner only if that has ended, or if no other
    /// scope can be meant.
    ///
    /// `beginner`: what `ended` needs to know of a scope. `runs`: whether a frame is on the caller's call stack. `ended`:
    /// whether the owner of a scope has ended. They may run the program's code: only `beginner` is called while the list
    /// is locked.
    pub fn leave<B>(
        &self,
        exit: &Exit,
        beginner: impl Fn(&S) -> B,
        runs: impl Fn(Frame) -> bool,
        ended: impl Fn(&B) -> bool,
    ) -> Exited<H, S> {
        let is_of = |level: &StackLevel<H, S>| {
            level.scope.as_ref().is_some_and(|(site, _)| exit.is_of(level.owner, site))
        };
        if let Some(left) = self.end(|levels| levels.iter().rposition(is_of)) {
            return left;
        }
        let entered = self.entered(beginner);
        let through = |one: &Entered<B>| one.site.through == exit.site.through;
        if !entered.iter().any(through) {
            return Exited::Nothing;
        }
        let Some(chosen) = exit.choose(&entered, runs, ended) else { return Exited::Others };
        let same =
            |level: &StackLevel<H, S>| level.scope.is_some() && is_same(&level.acquired, &chosen.acquired);
        // Another thread may have ended it meanwhile.
        self.end(|levels| levels.iter().position(same)).unwrap_or(Exited::Nothing)
    }

    fn end(&self, find: impl FnOnce(&[StackLevel<H, S>]) -> Option<usize>) -> Option<Exited<H, S>> {
        let mut levels = self.lock();
        let level = find(&levels).map(|at| levels.remove(at));
        drop(levels);
        let StackLevel { handle, scope, .. } = level?;
        scope.map(|(_, scope)| Exited::Scope(handle, scope))
    }

    fn entered<B>(&self, beginner: impl Fn(&S) -> B) -> Vec<Entered<B>> {
        let entered = |level: &StackLevel<H, S>| {
            let (site, scope) = level.scope.as_ref()?;
            let (acquired, beginner) = (Arc::clone(&level.acquired), beginner(scope));
            Some(Entered { acquired, owner: level.owner, site: *site, beginner })
        };
        self.lock().iter().filter_map(entered).collect()
    }

    /// Whether the caller owns the lock. With re-entry: whether the caller holds it through any object, as `owned_by`
    /// says. Without: whether this object holds it.
    ///
    /// # Errors
    /// As `owned_by`.
    pub fn owned(&self, owned_by: Result<bool>) -> Result<bool> {
        let held = owned_by?;
        Ok(if self.reentrant { held } else { self.any_held() })
    }

    /// The error that there is nothing to release: `caller` (a thread, a task) has not acquired `what`.
    #[must_use]
    pub fn not_held(&self, caller: &str, what: &str) -> Error {
        Error::not_held(if self.reentrant {
            format!("this {caller} has not acquired {what} through this object")
        } else {
            format!("{what} is not held through this object")
        })
    }

    /// Shows every handle and scope, for a garbage collector. Shows nothing while another thread uses the list.
    ///
    /// # Errors
    /// As `visit`.
    pub fn visit<E>(&self, mut visit: impl FnMut(&H, Option<&S>) -> Result<(), E>) -> Result<(), E> {
        let Ok(levels) = self.levels.try_lock() else { return Ok(()) };
        levels.iter().try_for_each(|level| visit(&level.handle, level.scope.as_ref().map(|(_, scope)| scope)))
    }

    /// What `owner` has not released and no scope is to release, as far as `wanted` says of the handle: only the owner can
    /// release it through this object. Nothing without re-entry, where anybody can.
    pub fn left_by(&self, owner: OwnerId, wanted: impl Fn(&H) -> bool) -> Vec<Arc<dyn Acquired>> {
        let levels = self.lock();
        let left = levels.iter().filter(|level| {
            self.reentrant
                && level.owner == owner
                && level.releasable
                && level.scope.is_none()
                && wanted(&level.handle)
        });
        left.map(|level| Arc::clone(&level.acquired)).collect()
    }

    /// Drops all levels.
    pub fn clear(&self) {
        let levels = std::mem::take(&mut *self.lock());
        drop(levels);
    }

    fn find(&self, levels: &[StackLevel<H, S>], owner: OwnerId) -> Option<usize> {
        levels.iter().rposition(|level| level.releasable && (!self.reentrant || level.owner == owner))
    }
}

/// Whether they are the same. Not `Arc::ptr_eq`: the same object may have more than one table of methods.
fn is_same(one: &Arc<dyn Acquired>, other: &Arc<dyn Acquired>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// Removes what is released. The scope's own part stays until the scope ends.
fn forget_closed<H, S>(levels: &mut Vec<StackLevel<H, S>>) -> Vec<StackLevel<H, S>> {
    for level in levels.iter_mut() {
        level.releasable &= level.acquired.is_open();
    }
    let over = |level: &StackLevel<H, S>| !level.releasable && level.scope.is_none();
    if !levels.iter().any(over) {
        return Vec::new();
    }
    let (closed, left) = std::mem::take(levels).into_iter().partition(over);
    *levels = left;
    closed
}

fn forget<H, S>(levels: &mut Vec<StackLevel<H, S>>, at: usize) -> Option<StackLevel<H, S>> {
    levels[at].releasable = false;
    levels[at].scope.is_none().then(|| levels.remove(at))
}
