//! Defines [`AcquiredStack`], the leases acquired through one lock object. Bindings need it for
//! languages in which a program calls `release` on the lock object instead of a lease.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acquired::Acquired;
use super::scope_match::{Entered, Exit, Frame, Site};
use crate::error::{Error, Result};
use crate::lease::owner::OwnerId;

/// The levels of one lock object, in the order of their acquires. Each acquire adds a *level*. The
/// level ends with the release, or with the scope that acquired it. A level contains the binding's
/// handle of type `H`. If a scope acquired it, it also contains the scope, of type `S`.
///
/// The list is short, because only owners that hold the lock have levels. Levels without a release
/// are released when the lock object is dropped.
///
/// No handle is dropped while the list's mutex is locked. The drop can run the program's code,
/// which might use the same lock object.
pub struct AcquiredStack<H, S = ()> {
    reentrant: bool,
    levels: Mutex<Vec<StackLevel<H, S>>>,
}

struct StackLevel<H, S> {
    /// The owner that acquired the level. The lease of a lock that is not reentrant has a different
    /// owner, which is new for each acquire.
    owner: OwnerId,
    acquired: Arc<dyn Acquired>,
    /// `false` after the release. Only the level's scope then keeps the level in the list.
    releasable: bool,
    handle: H,
    /// The scope that acquired the level, if any, and the place in the program where it did so.
    scope: Option<(Site, S)>,
}

/// The result of leaving a scope.
#[derive(Debug, PartialEq, Eq)]
pub enum Exited<H, S> {
    /// The scope that ended.
    Scope(H, S),
    /// No scope ended, because this object has no running scope.
    Nothing,
    /// No scope ended. This object has running scopes, but this call of the exit method belongs to
    /// none of them.
    Others,
}

/// A level whose owner gives up the lock for a while, for example while it waits for a condition
/// variable.
pub struct SuspendedLevel<H, S>(StackLevel<H, S>);

impl<H, S> fmt::Debug for SuspendedLevel<H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").field("releasable", &self.0.releasable).finish_non_exhaustive()
    }
}

impl<H, S> SuspendedLevel<H, S> {
    /// Returns the leases to release now and to acquire again later. Returns `None` if the program
    /// has already released the level inside its scope.
    pub fn releasable(&self) -> Option<&Arc<dyn Acquired>> {
        self.0.releasable.then_some(&self.0.acquired)
    }

    /// Returns the same level with newly acquired leases.
    #[must_use]
    pub fn renewed(self, acquired: Arc<dyn Acquired>, handle: H, scope: impl FnOnce(&H) -> S) -> Self {
        let scope = self.0.scope.map(|(site, _)| (site, scope(&handle)));
        Self(StackLevel { acquired, handle, scope, releasable: true, owner: self.0.owner })
    }

    /// Marks the level as released, for a caller that does not acquire it again. Only its scope
    /// then keeps the level in the list.
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
    /// Creates an empty stack. If the lock is not reentrant, the stack does not distinguish owners,
    /// so a release ends the newest level, even if another owner acquired that level.
    #[must_use]
    pub fn new(reentrant: bool) -> Self {
        Self { reentrant, levels: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StackLevel<H, S>>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a level. `scope` is the scope that acquired the level, if any, and the place in the
    /// program where the scope was entered.
    pub fn push(&self, owner: OwnerId, acquired: Arc<dyn Acquired>, handle: H, scope: Option<(Site, S)>) {
        let mut levels = self.lock();
        // Most stacks never have a second level. The first push would otherwise reserve four.
        if levels.is_empty() {
            levels.reserve_exact(1);
        }
        levels.push(StackLevel { owner, acquired, releasable: true, handle, scope });
    }

    /// Passes the handle of the newest releasable level to `get`. If the lock is reentrant,
    /// considers only the levels of `owner`.
    pub fn newest<R>(&self, owner: OwnerId, get: impl FnOnce(&H) -> R) -> Option<R> {
        let mut levels = self.lock();
        let closed = forget_closed(&mut levels);
        let newest = self.find(&levels, owner).map(|at| get(&levels[at].handle));
        drop(levels);
        drop(closed);
        newest
    }

    /// Removes the level that [`newest`](Self::newest) finds, so that the caller can release it.
    /// Passes its handle to `get`.
    pub fn take<R>(&self, owner: OwnerId, get: impl FnOnce(&H) -> R) -> Option<R> {
        self.remove(owner, |level| get(&level.handle)).map(|(taken, _)| taken)
    }

    /// Removes a level like [`take`](Self::take), and returns its leases and the level. The caller
    /// must first release the leases and then drop the level: the drop can run the program's code,
    /// which must find the lock released.
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

    /// Passes the handle of the level with these leases to `change`, if the level still exists.
    /// `change` must not drop a handle.
    pub fn change<R>(&self, acquired: &Arc<dyn Acquired>, change: impl FnOnce(&mut H) -> R) -> Option<R> {
        let mut levels = self.lock();
        let level = levels.iter_mut().find(|level| is_same(&level.acquired, acquired))?;
        Some(change(&mut level.handle))
    }

    /// Removes and returns all levels of `owner`, in order. If the lock is not reentrant, also
    /// removes the newest held level, even if another owner acquired it.
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

    /// Adds a suspended level again.
    pub fn restore(&self, saved: SuspendedLevel<H, S>) {
        self.lock().push(saved.0);
    }

    /// Returns `true` if this object holds the lock, for any owner.
    pub fn any_held(&self) -> bool {
        self.lock().iter().any(|level| level.releasable && level.acquired.is_held())
    }

    /// Ends the scope that this call of the exit method belongs to. Removes the scope's level, even
    /// if it is not released.
    ///
    /// The scope is the first match in this list:
    ///
    /// 1. A scope that the calling stack frame has entered.
    /// 2. Another scope of the same owner.
    /// 3. A scope of another owner, if that owner has ended or if no other scope matches the call.
    ///
    /// The arguments are:
    ///
    /// - `beginner` extracts from a scope the data that `ended` needs.
    /// - `runs` returns `true` if a frame is on the caller's call stack.
    /// - `ended` returns `true` if the owner of a scope has ended.
    ///
    /// `runs` and `ended` can run the program's code, so only `beginner` is called while the list
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
        // Another thread might have ended the scope meanwhile.
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

    /// Returns `true` if the caller owns the lock. For a reentrant lock, returns `owned_by`: the
    /// caller can hold the lock through any lock object. For any other lock, returns `true` if this
    /// lock object holds it.
    ///
    /// # Errors
    /// The error in `owned_by`.
    pub fn owned(&self, owned_by: Result<bool>) -> Result<bool> {
        let held = owned_by?;
        Ok(if self.reentrant { held } else { self.any_held() })
    }

    /// Returns the error for a release without an acquire. `caller` is the kind of caller, such as
    /// a thread, and `what` describes the lock.
    #[must_use]
    pub fn not_held(&self, caller: &str, what: &str) -> Error {
        Error::not_held(if self.reentrant {
            format!("this {caller} has not acquired {what} through this object")
        } else {
            format!("{what} is not held through this object")
        })
    }

    /// Passes every handle and scope to `visit`, for a garbage collector. Does nothing while
    /// another thread uses the list.
    ///
    /// # Errors
    /// The errors of `visit`.
    pub fn visit<E>(&self, mut visit: impl FnMut(&H, Option<&S>) -> Result<(), E>) -> Result<(), E> {
        let Ok(levels) = self.levels.try_lock() else { return Ok(()) };
        levels.iter().try_for_each(|level| visit(&level.handle, level.scope.as_ref().map(|(_, scope)| scope)))
    }

    /// Returns the leases that `owner` has acquired outside of a scope and has not released, and
    /// whose handles `wanted` accepts. Returns none if the lock is not reentrant, because any
    /// caller can still release them.
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

/// Returns `true` if both are the same object. `Arc::ptr_eq` would also compare the vtables, and
/// one type can have several vtables.
fn is_same(one: &Arc<dyn Acquired>, other: &Arc<dyn Acquired>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// Removes the released levels. A level with a scope remains until the scope ends.
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
