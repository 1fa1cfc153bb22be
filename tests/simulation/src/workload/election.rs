//! The actions of candidates and observers of an election, and checks of the leaders that they
//! report.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{Candidate, Election, Error, ErrorKind, Lease, Timeout};

use super::{Attempt, Contender, Moment};
use crate::clock;
use crate::locks::ELECTION;

impl Contender {
    /// Campaigns until the contender leads or gives up.
    pub(super) async fn campaign(&self, attempt: &Attempt, wait_limit: Timeout) -> Result<Lease, Error> {
        let path = self.clients.below(self.of, ELECTION);
        let election = Election::with_id(attempt.client(false), path, attempt.label.clone())?;
        if election.is_leader() {
            self.violation("leads before it is a candidate");
        }
        let leadership = election.campaign_with(wait_limit).await?;
        // Read `is_leader` before the lease. Both values only change from true to false, so
        // `is_leader` must have been true if the lease is held afterwards.
        let (leads, held) = (election.is_leader(), leadership.check().is_ok());
        if held && !leads {
            self.violation("leads, but reports that it does not");
        }
        Ok(leadership.into())
    }

    /// Observes the election for a while.
    pub(super) async fn observe(&mut self) {
        self.now_does("observes");
        let began = self.now();
        let Ok(election) = Election::new(self.client(), self.clients.below(self.of, ELECTION)) else {
            return;
        };
        if self.chance.percent(30) {
            match election.leader().await {
                Ok(leader) => self.is_told(began, leader.as_ref()),
                Err(error) => self.expect_observable(began, &error),
            }
            return;
        }
        let time = self.chance.skewed(0..=3 * self.setting.timeout);
        let soon = Duration::from_millis(self.oracle.borrow().calm.soon());
        let mut leaders = election.observe();
        let mut last = None;
        while began.took() < time {
            match timeout(soon, leaders.next()).await {
                Ok(Ok(leader)) => {
                    let id = leader.as_ref().map_or("nobody", |leader| &leader.id);
                    self.oracle.borrow_mut().history.note(&format!("contender {} sees {id}", self.number));
                    if last.as_ref() == Some(&leader) {
                        self.violation(&format!("receives the leader {id} twice"));
                    }
                    last = Some(leader);
                }
                Ok(Err(error)) => return self.expect_observable(began, &error),
                // The leader has not changed for some time. If the observer has received a leader,
                // it must be the current one.
                Err(_) => {
                    if let Some(last) = &last {
                        self.is_told(began, last.as_ref());
                    }
                }
            }
        }
    }

    fn expect_observable(&self, began: Moment, error: &Error) {
        let calm = self.oracle.borrow().calm.lasts_since(began.at);
        let expected = match error.kind() {
            ErrorKind::ClientClosed => true,
            ErrorKind::ConnectionFailed => !calm,
            _ => false,
        };
        if !expected {
            self.violation(&format!("observing: {error}"));
        }
    }

    /// Checks the leader that an observer reports. A contender that has led for a long time must be
    /// reported, and a contender that stopped leading long ago must not be.
    fn is_told(&self, began: Moment, leader: Option<&Candidate>) {
        let oracle = self.oracle.borrow();
        if !oracle.calm.lasts_since(began.at) {
            return;
        }
        let long_ago = clock::now().saturating_sub(4 * oracle.calm.soon());
        let node = leader.map(|leader| self.clients.full(self.of, &leader.node));
        let leads = oracle
            .certain_nodes()
            .into_iter()
            .find(|(node, since)| node.starts_with(&format!("{ELECTION}/")) && *since < long_ago);
        let other = leads.filter(|(leads, _)| node.as_ref() != Some(leads));
        let through = leader.is_some_and(|leader| oracle.was_through(&leader.id, long_ago));
        drop(oracle);
        if let Some((other, since)) = other {
            self.violation(&format!("observes that {node:?} leads, but {other} has led since {since} ms"));
        }
        if through {
            self.violation(&format!("observes that {node:?} leads, but its leadership ended long ago"));
        }
    }
}
