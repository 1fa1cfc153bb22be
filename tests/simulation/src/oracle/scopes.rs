//! Checks the scopes (blocks that hold a lock) of one lock object that all contenders share, like
//! the tasks of one program. When an owner leaves a scope, the library must end this scope and no
//! other one.
//!
//! Contenders enter and leave scopes in every way that Python offers. They call the part of the
//! library on which the bindings are built. The addresses of simulated stack frames are reused, as
//! in an interpreter.

use std::collections::BTreeSet;
use std::sync::Arc;

use zklock::Timeout;
use zklock::internal::{Acquired, AcquiredStack, Exit, Exited, Frame, OwnerId, Released, Site};

use crate::chance::Chance;

/// Numbers of simulated code objects. The first one enters and leaves a scope, the second one only
/// enters a scope, and the third one only leaves one.
const STATEMENT: usize = 1;
const ENTER: usize = 2;
const EXIT: usize = 3;

/// The way in which a scope is entered and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScopeKind {
    /// By a statement in a function.
    Statement,
    /// By a statement in a generator. One owner can enter the scope and another owner can leave it.
    Generator,
    /// By explicit calls.
    Calls,
    /// By explicit calls of two owners. The owner that entered the scope ends before the second
    /// owner leaves it.
    Abandoned,
    /// By explicit calls of two owners, on an object that can be entered only once.
    Once,
}

/// A scope that a contender is in.
#[derive(Debug)]
pub struct Scope {
    number: u64,
    owner: OwnerId,
    way: ScopeKind,
    site: Site,
}

impl Scope {
    /// Returns `true` if the owner leaves the scope by an explicit call. The call does not name the
    /// scope.
    pub fn is_of_calls(&self) -> bool {
        self.way == ScopeKind::Calls
    }
}

/// A placeholder for the lease of a scope. The end of the scope releases nothing, because the
/// contender itself releases its lease.
struct Body;

impl Acquired for Body {
    fn check(&self) -> zklock::Result<()> {
        Ok(())
    }

    fn is_open(&self) -> bool {
        true
    }

    fn loss(&self) -> Option<zklock::Error> {
        None
    }

    fn release(&self, _: Timeout) -> Released {
        unreachable!("levels release nothing")
    }
}

/// The shared object.
#[derive(Debug)]
pub struct Scopes {
    levels: AcquiredStack<(), u64>,
    entered: u64,
    /// Addresses of existing frames.
    frames: BTreeSet<usize>,
    /// The frames of functions that have not returned, with their owners.
    running: Vec<(OwnerId, Frame)>,
    /// The scopes of owners that have ended.
    abandoned: BTreeSet<u64>,
}

impl Default for Scopes {
    fn default() -> Self {
        let levels = AcquiredStack::new(true);
        Self { levels, entered: 0, frames: BTreeSet::new(), running: Vec::new(), abandoned: BTreeSet::new() }
    }
}

impl Scopes {
    /// Enters a scope in a random way.
    pub fn enter(&mut self, owner: OwnerId, chance: &mut Chance) -> Scope {
        let way = chance.pick(&[
            ScopeKind::Statement,
            ScopeKind::Generator,
            ScopeKind::Calls,
            ScopeKind::Abandoned,
            ScopeKind::Once,
        ]);
        self.entered += 1;
        let number = self.entered;
        let owner = if way == ScopeKind::Abandoned { OwnerId::new() } else { owner };
        let code = if matches!(way, ScopeKind::Statement | ScopeKind::Generator) { STATEMENT } else { ENTER };
        let site = Site {
            frame: Frame { address: self.free(), code },
            moves: way == ScopeKind::Generator,
            through: if way == ScopeKind::Once { number } else { 0 },
        };
        if code == STATEMENT {
            self.frames.insert(site.frame.address);
        }
        if way == ScopeKind::Statement {
            self.running.push((owner, site.frame));
        }
        if way == ScopeKind::Abandoned {
            self.abandoned.insert(number);
        }
        self.levels.push(owner, Arc::new(Body), (), Some((site, number)));
        Scope { number, owner, way, site }
    }

    /// Leaves a scope. If another scope ended instead, returns a description of the error.
    pub fn leave(&mut self, scope: &Scope, chance: &mut Chance) -> Option<String> {
        let Scope { number, owner, way, site } = *scope;
        let called = Site { frame: Frame { address: self.free(), code: EXIT }, ..site };
        let other = OwnerId::new();
        let exit = match way {
            ScopeKind::Statement => Exit { owner, site, only: false },
            ScopeKind::Generator => Exit { owner: chance.pick(&[owner, other]), site, only: false },
            ScopeKind::Calls => Exit { owner, site: called, only: false },
            ScopeKind::Abandoned => Exit { owner: other, site: called, only: false },
            ScopeKind::Once => Exit { owner: other, site: called, only: true },
        };
        let alone = self.abandoned.len() == 1;
        let mut left = self.exit(&exit);
        if way == ScopeKind::Abandoned && !alone && left == Exited::Others {
            // There are several abandoned scopes, so the exit by another owner is ambiguous. Repeat
            // it as the owner that entered the scope.
            left = self.exit(&Exit { owner, ..exit });
        }
        if site.frame.code == STATEMENT {
            self.frames.remove(&site.frame.address);
        }
        self.running.retain(|(_, frame)| *frame != site.frame);
        self.abandoned.remove(&number);
        (left != Exited::Scope((), number)).then(|| format!("scope {number} ({way:?}) is left: {left:?}"))
    }

    /// Calls `exit` for an owner that has entered no scope. If this ends a scope, returns a
    /// description of the error.
    pub fn stray(&mut self, chance: &mut Chance) -> Option<String> {
        // If there is exactly one abandoned scope, the call may end it.
        if self.abandoned.len() == 1 {
            return None;
        }
        let frame = Frame { address: self.free(), code: EXIT };
        let site = Site { frame, moves: chance.percent(50), through: 0 };
        let left = self.exit(&Exit { owner: OwnerId::new(), site, only: false });
        matches!(left, Exited::Scope(..)).then(|| format!("an owner without a scope leaves: {left:?}"))
    }

    fn exit(&self, exit: &Exit) -> Exited<(), u64> {
        let runs = |frame: Frame| self.running.contains(&(exit.owner, frame));
        self.levels.leave(exit, |number| *number, runs, |number| self.abandoned.contains(number))
    }

    /// Returns the first unused frame address.
    fn free(&self) -> usize {
        (1..=self.frames.len() + 1).find(|address| !self.frames.contains(address)).unwrap_or_default()
    }
}
