//! Begins and ends faults.

use crate::ensemble::Awaited;
use crate::fault::{Fault, What};
use crate::frame::{self, STRANGER};
use crate::locks::DIRECTORIES;
use crate::world::{Turn, World};
use crate::{clock, network, sweep};

/// Interval at which an operator looks for a queue to sweep, in milliseconds.
const LOOK: u64 = 10;

impl World {
    /// Begins or ends a fault.
    pub fn turn(&mut self, turn: &Turn) {
        let (number, Fault { what, at, lasts }) = self.plan.faults[turn.fault].clone();
        match what {
            What::Sweep => return self.sweep(turn, at + lasts),
            What::Intrude { place } => return self.intrude(turn, DIRECTORIES[place], at + lasts),
            _ => {}
        }
        let verb = if turn.begins { "begins" } else { "ends" };
        let mut oracle = self.oracle.borrow_mut();
        oracle.history.note(&format!("fault {number} {verb}: {what:?}"));
        oracle.prompt.disturbed();
        if matches!(what, What::Mute { .. }) {
            oracle.prompt.muted();
        }
        // A fault with two parts continues until its second part ends.
        let goes_on = matches!(what, What::Replace { .. }) && !turn.begins && !turn.last;
        if !goes_on && !matches!(what, What::Delete { .. } | What::Reap { .. }) {
            oracle.calm.fault(turn.begins);
        }
        drop(oracle);
        match what {
            What::Replace { client, stop } => self.replace(turn, client, stop, at + lasts),
            what => {
                if turn.begins {
                    self.befall_connections(&what, at + lasts);
                }
                self.befall_processes(&what, turn.begins);
                self.befall_servers(&what, turn.begins, number);
                if turn.begins {
                    self.by_operators(&what);
                }
            }
        }
    }

    /// Cuts a client's connections and replaces its session. The fault ends some time after the
    /// client has continued.
    fn replace(&mut self, turn: &Turn, client: usize, stop: bool, until: u64) {
        self.ensemble.borrow_mut().forget_all(!turn.last);
        if turn.begins {
            if stop {
                self.stopped.stop(client);
            }
            network::with(|network| network.cut_all(client));
        } else if !turn.last {
            if stop {
                self.stopped.go_on(client);
            }
            self.turns.plan(until + self.plan.setting.timeout / 2, Turn { last: true, ..turn.clone() });
        }
    }

    /// Begins a fault of connections.
    fn befall_connections(&self, what: &What, until: u64) {
        let servers = 0..self.plan.setting.servers;
        match what {
            What::Cut { client } => network::with(|network| network.cut_all(*client)),
            What::Silence { client, server, ways } => network::with(|network| {
                for server in servers.filter(|one| server.is_none_or(|server| server == *one)) {
                    network.silence(*client, server, ways, until);
                }
            }),
            What::Corner { part, ways } => {
                let holder = self.oracle.borrow().holder(*part);
                if let Some(client) = holder {
                    network::with(|network| {
                        servers.for_each(|server| network.silence(client, server, ways, until));
                    });
                }
            }
            What::Deafen { part } => {
                let holder = self.oracle.borrow().holder(*part);
                for id in
                    holder.map(|client| network::with(|network| network.of(client))).into_iter().flatten()
                {
                    self.ensemble.borrow_mut().deafen(id);
                }
            }
            _ => {}
        }
    }

    /// Begins or ends a fault of clients' processes.
    fn befall_processes(&self, what: &What, begins: bool) {
        let stop = |client| if begins { self.stopped.stop(client) } else { self.stopped.go_on(client) };
        match what {
            What::Stop { client } => stop(*client),
            What::Suspend => {
                (0..=self.clients.count()).for_each(stop);
                clock::suspend(begins);
            }
            What::Break { client, part } => self.stopped.break_down(*client, begins.then_some(*part)),
            _ => {}
        }
    }

    /// Begins or ends a fault of servers.
    fn befall_servers(&mut self, what: &What, begins: bool, number: usize) {
        let mut ensemble = self.ensemble.borrow_mut();
        match *what {
            What::Crash { server } if begins => ensemble.crash(server),
            What::Crash { server } => ensemble.restart(server),
            What::Freeze { server } if begins => ensemble.freeze(server),
            What::Freeze { server } => ensemble.thaw(server),
            What::Isolate { server } if begins => ensemble.isolate(server),
            What::Isolate { server } => ensemble.join(server),
            What::Depose => match ensemble.leader() {
                Some(leader) if begins => {
                    self.deposed.push((number, leader));
                    ensemble.isolate(leader);
                }
                _ => {
                    if let Some(place) = self.deposed.iter().position(|(fault, _)| *fault == number) {
                        ensemble.join(self.deposed.swap_remove(place).1);
                    }
                }
            },
            What::Lag { server, by } => ensemble.lag(server, if begins { by } else { 0 }),
            What::Forget { server } => ensemble.forget(server, begins),
            What::Throttle { server, percent } => ensemble.throttle(server, if begins { percent } else { 0 }),
            What::Late { client } if begins => {
                ensemble.trap(client, self.plan.setting.timeout, Awaited::Create);
            }
            What::LateRecord { client } if begins => {
                ensemble.trap(client, self.plan.setting.timeout, Awaited::Record);
            }
            What::Late { .. } | What::LateRecord { .. } => ensemble.end_trap(),
            What::CutAtRecord => self.cuts_at_record = begins,
            What::Mute { server } => ensemble.mute(server, begins),
            What::DeafenAt { request } => {
                let until = clock::now() + self.plan.setting.timeout;
                ensemble.deafen_at(begins.then_some((request, until)));
            }
            _ => {}
        }
    }

    /// Carries out an operator's action.
    fn by_operators(&self, what: &What) {
        let mut ensemble = self.ensemble.borrow_mut();
        match *what {
            What::Kill { client } => {
                let session = self.clients.get(client).session_id();
                self.oracle.borrow_mut().killed(session);
                ensemble.expire(session);
            }
            What::Delete { place, part } => {
                let directory = DIRECTORIES[place % DIRECTORIES.len()];
                let mut nodes = ensemble.children(directory).unwrap_or_default();
                nodes.sort_by_key(|node| node.get(node.len().saturating_sub(10)..).map(str::to_owned));
                let index = usize::try_from(part).unwrap_or(0) * nodes.len() / 100;
                if let Some(node) = nodes.get(index) {
                    let path = format!("{directory}/{node}");
                    self.oracle.borrow_mut().broken(&path, true);
                    ensemble.delete(&path);
                }
            }
            What::Reap { place } => ensemble.reap(DIRECTORIES[place % DIRECTORIES.len()]),
            _ => {}
        }
    }

    /// Lets a stranger (a foreign contender) join a queue for a while. Servers show only that its
    /// node exists, not its content.
    fn intrude(&mut self, turn: &Turn, directory: &'static str, until: u64) {
        let mut ensemble = self.ensemble.borrow_mut();
        if turn.begins {
            self.oracle.borrow_mut().history.note(&format!("a stranger queues in {directory}"));
            self.strangers.push(directory);
            return ensemble.create(&format!("{directory}/{STRANGER}"), frame::SEQUENTIAL);
        }
        let children = ensemble.children(directory).unwrap_or_default();
        if let Some(node) = children.iter().find(|node| node.starts_with(STRANGER)) {
            self.oracle.borrow_mut().stranger_leaves(directory);
            ensemble.delete(&format!("{directory}/{node}"));
        } else if clock::now() > until + self.plan.setting.timeout {
            return;
        }
        // Without a leader, the ensemble decides no change, so the node might not exist yet. Try
        // again later.
        self.turns.plan(clock::now() + 10 * LOOK, turn.clone());
    }

    /// Reports to the oracle the strangers whose nodes exist now.
    pub fn look_for_strangers(&mut self) {
        let (ensemble, oracle) = (&self.ensemble, &self.oracle);
        self.strangers.retain(|directory| {
            let children = ensemble.borrow_mut().children(directory).unwrap_or_default();
            let node = children.into_iter().find(|node| node.starts_with(STRANGER));
            node.map(|node| oracle.borrow_mut().stranger_queues(directory, &node)).is_none()
        });
    }

    /// Deletes the nodes of a suitable queue as soon as there is one: see
    /// [`Sweep`](crate::sweep::Sweep).
    ///
    /// The client of the two contenders is stopped meanwhile, so that it receives all events
    /// together. The fault needs a single server, because an operator's action then takes effect
    /// before anything else happens.
    fn sweep(&mut self, turn: &Turn, until: u64) {
        if !turn.begins || clock::now() >= until {
            return;
        }
        let mut ensemble = self.ensemble.borrow_mut();
        // Only mutexes are suitable. Without a leader, an operator's action is not executed.
        let is_led = ensemble.leader().is_some();
        let mut mutexes = DIRECTORIES[..2].iter().filter(|_| is_led);
        let found = mutexes.find_map(|directory| sweep::find(&mut ensemble, directory));
        let of = |sweep: &sweep::Sweep| {
            (0..self.clients.count()).find(|client| self.clients.get(*client).session_id() == sweep.session)
        };
        let Some((client, sweep)) = found.and_then(|sweep| Some((of(&sweep)?, sweep))) else {
            return self.turns.plan(clock::now() + LOOK, turn.clone());
        };
        let mut oracle = self.oracle.borrow_mut();
        let number = self.plan.faults[turn.fault].0;
        oracle.history.note(&format!("fault {number} sweeps before {}", sweep.second));
        oracle.prompt.disturbed();
        self.stopped.stop(client);
        ensemble.touch(&sweep.second);
        for node in sweep.others.iter().chain([&sweep.second]) {
            oracle.broken(node, true);
            ensemble.delete(node);
        }
        oracle.gone(sweep.second);
        drop(oracle);
        drop(ensemble);
        self.going_on.plan(clock::now() + 3 * self.plan.setting.latency, client);
    }
}
