//! Actions at regular intervals: the oracle lists all nodes, and the server removes unused
//! directories.

use std::cell::RefCell;

use crate::clients::Clients;
use crate::ensemble::Ensemble;
use crate::locks::DIRECTORIES;
use crate::oracle::Oracle;
use crate::setting::Setting;

/// The times of the next listing and the next removal.
#[derive(Debug)]
pub struct Rounds {
    next_look: u64,
    pause: u64,
    next_reap: Option<u64>,
    reaps: u64,
}

impl Rounds {
    pub fn new(setting: &Setting) -> Self {
        let pause = setting.timeout / 4;
        Self { next_look: pause, pause, next_reap: setting.reaps, reaps: setting.reaps.unwrap_or(0) }
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> u64 {
        self.next_reap.map_or(self.next_look, |reap| reap.min(self.next_look))
    }

    /// Runs the next event that is due. Returns `false` if there is none.
    pub fn step(
        &mut self,
        now: u64,
        oracle: &RefCell<Oracle>,
        ensemble: &RefCell<Ensemble>,
        clients: &Clients,
    ) -> bool {
        if self.next_look <= now {
            self.next_look = now + self.pause;
            let mut oracle = oracle.borrow_mut();
            for directory in DIRECTORIES {
                let nodes = ensemble.borrow_mut().labels(directory);
                oracle.look_at(directory, &nodes, directory.ends_with("/locks"));
            }
            oracle.judge_promptness();
            oracle.judge_limits();
            oracle.judge_clients(clients);
            return true;
        }
        if self.next_reap.is_some_and(|reap| reap <= now) {
            self.next_reap = Some(now + self.reaps);
            for directory in DIRECTORIES {
                ensemble.borrow_mut().reap(directory);
            }
            return true;
        }
        false
    }
}
