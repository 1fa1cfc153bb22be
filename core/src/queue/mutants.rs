//! Bugs that can be planted in the queue, so that its tests show that they would find them.
//!
//! Where a rule could be got wrong the queue asks whether it is to be. Outside the tests of this crate the answer is a
//! constant: nothing of this is in what is built.

/// A known way to get a rule wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A waiter whose session was replaced goes on waiting, and acquires, through its old session's node.
    Curator604,
    /// After a lost reply the old session's node is taken for the new one's.
    Curator498,
    /// A downgrade queues up like any reader, and counts as held while it does.
    Curator621,
    /// After a lost reply a server that lags may say that there is no node (rule 8).
    MissingSync,
    /// A vanished writer's place is taken to be empty (rule 6).
    NoDowngradeException,
    /// What was known before a reconnection is still believed (rule 10).
    NoRelist,
    /// Whoever leaves the queue leaves its node there (rule 9).
    LeaveWithoutDelete,
    /// Grants do not ask whether the term runs (rule 16).
    GrantWithoutTerm,
    /// The fencing token is the sequence number.
    TokenFromSequence,
    /// Sequence numbers are compared as text: behind the wrap a minus comes first (rule 2).
    StringOrder,
    /// The end of a holder's session is taken for a release, which grants to the next of ours (rules 7 and 11).
    AdjacentAcrossSessions,
    /// The node before the one that is waited for is watched in its stead.
    WrongPredecessor,
    /// Writers that went are remembered over the next listing, which is thought to need no sync then (rule 5).
    Tombstones,
    /// A writer's release does not wait for the reader in its place (rule 4).
    DowngradeDoesNotBlock,
    /// Events are believed without knowing that the own node stands (rule 6).
    NoOwnNodeWatch,
    /// The name of a node is used again in the next session (rule 1).
    UuidKept,
    /// The listing of a pair that a reconnection tore apart is believed (rule 3). The driver has its part in this.
    TornPair,
}

/// Whether this bug is planted.
#[cfg(not(test))]
pub(super) const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(test)]
pub(super) use planting::planted;

#[cfg(test)]
#[allow(dead_code, reason = "only the test of the mutants plants any")]
pub(crate) mod planting {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Plants a bug for this thread, or takes the last one out.
    pub(crate) fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }

    pub(crate) fn planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }
}
