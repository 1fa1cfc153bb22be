//! The environment of a progress case: the clients and servers, the maximum durations of single
//! steps, and the check of the measured time.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use zklock::{Client, simulation};

use crate::clients::Clients;
use crate::clock;
use crate::ensemble::Ensemble;
use crate::gate::Stopped;
use crate::measured::Measured;
use crate::network::{self, Direction, Refusal};
use crate::oracle::Oracle;
use crate::setting::Setting;

/// The clients, named by their role in most cases.
pub const CLIENTS: usize = 3;
pub const BLOCKER: usize = 0;
pub const WAITER: usize = 1;
pub const OTHER: usize = 2;

/// Tolerance in milliseconds, because each timer is rounded up.
pub const SLACK: u64 = 5;

/// Time after which a case counts as stuck.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The result of a case: `Err` describes a violation.
pub type CaseResult = Result<(), String>;

/// Everything that a case needs.
pub struct Stage {
    pub setting: Setting,
    pub clients: Clients,
    pub ensemble: Rc<RefCell<Ensemble>>,
    pub oracle: Rc<RefCell<Oracle>>,
    pub stopped: Stopped,
    pub doing: Rc<RefCell<String>>,
}

impl Stage {
    pub fn client(&self, number: usize) -> Client {
        self.clients.get(number)
    }

    pub fn does(&self, what: &str) {
        self.note(what);
        what.clone_into(&mut self.doing.borrow_mut());
    }

    pub fn note(&self, what: &str) {
        self.oracle.borrow_mut().history.note(what);
    }

    pub fn violation(&self, what: &str) {
        self.oracle.borrow_mut().violation(what);
    }

    /// Compares a measured time with its bound.
    pub fn judge(&self, promise: &str, took: u64, bound: u64) {
        self.note(&format!("{promise}: {took} ms of {bound} ms"));
        let mut oracle = self.oracle.borrow_mut();
        oracle.grants += 1;
        if took > bound {
            oracle.violation(format!("{promise}: took {took} ms, more than {bound} ms"));
        }
        oracle.measured.push(Measured { promise: promise.to_owned(), took, bound });
    }

    /// Spawns a task in a client's process.
    pub fn spawn<T: 'static>(client: usize, task: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        tokio::task::spawn_local(simulation::of_client(client, Box::pin(task)))
    }

    /// Returns the maximum latency of one packet.
    pub fn hop(&self) -> u64 {
        self.setting.latency
    }

    /// Returns the maximum duration of a read by a client.
    pub fn read(&self) -> u64 {
        2 * self.hop()
    }

    /// Returns the maximum duration of a client's write. With several servers, four more messages
    /// are needed: forward, propose, acknowledge and commit.
    pub fn write(&self) -> u64 {
        if self.setting.servers == 1 { 2 * self.hop() } else { 6 * self.hop() }
    }

    /// Returns the maximum time between the first execution of a change by a server and the arrival
    /// of the watch event at a client.
    pub fn told(&self) -> u64 {
        if self.setting.servers == 1 { self.hop() } else { 3 * self.hop() }
    }

    /// Returns the maximum time that a client needs to reconnect when a server accepts it again.
    pub fn reconnected(&self) -> u64 {
        1500.min(self.setting.timeout / 8) + 3 * self.read()
    }

    /// Like [`Self::reconnected`], but for a client that neither holds a lock nor waits near the
    /// head of a queue.
    pub fn reconnected_at_leisure(&self) -> u64 {
        1000.max(self.reconnected()) + 3 * self.read()
    }

    /// Returns the names in a directory on the most advanced server.
    pub fn names(&self, directory: &str) -> Vec<String> {
        self.ensemble.borrow_mut().children(directory).unwrap_or_default()
    }

    pub fn exists(&self, node: &str) -> bool {
        let (directory, name) = node.rsplit_once('/').unwrap_or_default();
        self.names(directory).iter().any(|one| one == name)
    }

    /// Checks a condition every millisecond. Returns the time at which it is true, or fails after
    /// `longest` milliseconds.
    pub async fn until(what: &str, longest: u64, holds: impl Fn() -> bool) -> Result<u64, String> {
        let began = clock::now();
        while !holds() {
            if clock::now() > began + longest {
                return Err(format!("{what}: not within {longest} ms"));
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(clock::now())
    }

    /// Holds back all packets from and to a client.
    pub fn silence(&self, client: usize) {
        self.note(&format!("nothing reaches client {client}, nor comes from it"));
        network::with(|network| {
            for server in 0..self.setting.servers {
                network.silence(client, server, &[Direction::ToServer, Direction::ToClient], u64::MAX / 4);
            }
        });
    }

    /// Makes all servers refuse a client, or accept it again.
    pub fn refuse(&self, client: usize, refuses: bool) {
        self.note(&format!("servers refuse client {client}: {refuses}"));
        network::with(|network| {
            for server in 0..self.setting.servers {
                network.set_refusal(client, server, refuses.then_some(Refusal::Refuses));
            }
            if refuses {
                network.cut_all(client);
            }
        });
    }

    /// Cuts a client's connections. Servers accept new ones immediately.
    pub fn cut(&self, client: usize) {
        self.note(&format!("the connections of client {client} are cut"));
        network::with(|network| network.cut_all(client));
    }
}

/// Waits in simulated time.
pub async fn pause(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds)).await;
}
