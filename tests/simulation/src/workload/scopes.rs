//! The scopes in which a contender holds.

use zklock::internal::OwnerId;

use super::Contender;
use crate::oracle::Scope;

impl Contender {
    /// Enters one scope of the object that all share, or several, and now and then leaves one that it has not entered.
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

    /// Leaves them in some order: those of written calls the newest first, as the language expects of one owner.
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
