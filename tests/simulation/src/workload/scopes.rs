//! The scopes in which a contender holds locks.

use zklock::internal::OwnerId;

use super::Contender;
use crate::oracle::Scope;

impl Contender {
    /// Enters one or more scopes of the shared lock object. Sometimes also calls `exit` for an
    /// owner that has entered no scope.
    pub(super) fn enter_scopes(&mut self, owner: OwnerId) -> Vec<Scope> {
        let count = 1 + self.scopes.index(3);
        let (scopes, mut oracle) = (&mut self.scopes, self.oracle.borrow_mut());
        let entered = (0..count).map(|_| oracle.scopes.enter(owner, scopes)).collect();
        let stray = if scopes.percent(30) { oracle.scopes.stray(scopes) } else { None };
        if let Some(ended) = stray {
            oracle.violation(format!("contender {}: {ended}", self.number));
        }
        entered
    }

    /// Leaves the scopes in random order. Scopes that are left by explicit calls are left in
    /// reverse order, because such a call always ends the owner's newest scope.
    pub(super) fn leave_scopes(&mut self, mut entered: Vec<Scope>) {
        let (scopes, mut oracle) = (&mut self.scopes, self.oracle.borrow_mut());
        while !entered.is_empty() {
            let drawn = scopes.index(entered.len());
            let next = if entered[drawn].is_of_calls() {
                entered.iter().rposition(Scope::is_of_calls).unwrap_or(drawn)
            } else {
                drawn
            };
            let scope = entered.remove(next);
            if let Some(wrong) = oracle.scopes.leave(&scope, scopes) {
                oracle.violation(format!("contender {}: {wrong}", self.number));
            }
        }
    }
}
