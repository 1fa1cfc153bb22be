//! Begins and ends faults.

use crate::ensemble::Awaited;
use crate::fault::{Fault, FaultKind};
use crate::frame::{self, STRANGER};
use crate::locks::DIRECTORIES;
use crate::world::{FaultEvent, World};
use crate::{clock, network, sweep};

/// Interval in milliseconds at which an operator looks for a queue in which [`FaultKind::Sweep`] is
/// possible.
const LOOK: u64 = 10;

impl World {
    /// Begins or ends a fault.
    pub fn run_fault_event(&mut self, event: &FaultEvent) {
        let (number, Fault { what, at, lasts }) = self.plan.faults[event.fault].clone();
        match what {
            FaultKind::Sweep => return self.sweep(event, at + lasts),
            FaultKind::Intrude { place } => return self.intrude(event, DIRECTORIES[place], at + lasts),
            _ => {}
        }
        let verb = if event.begins { "begins" } else { "ends" };
        let mut oracle = self.oracle.borrow_mut();
        oracle.history.note(&format!("fault {number} {verb}: {what:?}"));
        oracle.prompt.disturbed();
        if matches!(what, FaultKind::Mute { .. }) {
            oracle.prompt.muted();
        }
        // `Replace` has two end events. The fault is still active between them.
        let goes_on = matches!(what, FaultKind::Replace { .. }) && !event.begins && !event.last;
        if !goes_on && !matches!(what, FaultKind::Delete { .. } | FaultKind::Reap { .. }) {
            oracle.calm.fault(event.begins);
        }
        drop(oracle);
        match what {
            FaultKind::Replace { client, stop } => self.replace(event, client, stop, at + lasts),
            what => {
                if event.begins {
                    self.apply_connection_fault(&what, at + lasts);
                }
                self.apply_process_fault(&what, event.begins);
                self.apply_server_fault(&what, event.begins, number);
                if event.begins {
                    self.apply_operator_action(&what);
                }
            }
        }
    }

    /// Cuts a client's connections and replaces its session. If `stop` is true, the client is
    /// stopped until the first end event. The servers refuse to resume sessions until the second
    /// end event.
    fn replace(&mut self, event: &FaultEvent, client: usize, stop: bool, until: u64) {
        self.ensemble.borrow_mut().forget_all(!event.last);
        if event.begins {
            if stop {
                self.stopped.stop(client);
            }
            network::with(|network| network.cut_all(client));
        } else if !event.last {
            if stop {
                self.stopped.go_on(client);
            }
            self.fault_events
                .plan(until + self.plan.setting.timeout / 2, FaultEvent { last: true, ..event.clone() });
        }
    }

    /// Begins a fault of connections.
    fn apply_connection_fault(&self, what: &FaultKind, until: u64) {
        let servers = 0..self.plan.setting.servers;
        match what {
            FaultKind::Cut { client } => network::with(|network| network.cut_all(*client)),
            FaultKind::Silence { client, server, directions } => network::with(|network| {
                for server in servers.filter(|one| server.is_none_or(|server| server == *one)) {
                    network.silence(*client, server, directions, until);
                }
            }),
            FaultKind::Corner { part, directions } => {
                let holder = self.oracle.borrow().holder(*part);
                if let Some(client) = holder {
                    network::with(|network| {
                        servers.for_each(|server| network.silence(client, server, directions, until));
                    });
                }
            }
            FaultKind::Deafen { part } => {
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
    fn apply_process_fault(&self, what: &FaultKind, begins: bool) {
        let stop = |client| if begins { self.stopped.stop(client) } else { self.stopped.go_on(client) };
        match what {
            FaultKind::Stop { client } => stop(*client),
            FaultKind::Suspend => {
                (0..=self.clients.count()).for_each(stop);
                clock::suspend(begins);
            }
            FaultKind::Break { client, part } => self.stopped.break_down(*client, begins.then_some(*part)),
            _ => {}
        }
    }

    /// Begins or ends a fault of servers.
    fn apply_server_fault(&mut self, what: &FaultKind, begins: bool, number: usize) {
        let mut ensemble = self.ensemble.borrow_mut();
        match *what {
            FaultKind::Crash { server } if begins => ensemble.crash(server),
            FaultKind::Crash { server } => ensemble.restart(server),
            FaultKind::Freeze { server } if begins => ensemble.freeze(server),
            FaultKind::Freeze { server } => ensemble.thaw(server),
            FaultKind::Isolate { server } if begins => ensemble.isolate(server),
            FaultKind::Isolate { server } => ensemble.join(server),
            FaultKind::Depose => match ensemble.leader() {
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
            FaultKind::Lag { server, by } => ensemble.lag(server, if begins { by } else { 0 }),
            FaultKind::Forget { server } => ensemble.forget(server, begins),
            FaultKind::Throttle { server, percent } => {
                ensemble.throttle(server, if begins { percent } else { 0 });
            }
            FaultKind::Late { client } if begins => {
                ensemble.trap(client, self.plan.setting.timeout, Awaited::Create);
            }
            FaultKind::LateRecord { client } if begins => {
                ensemble.trap(client, self.plan.setting.timeout, Awaited::Record);
            }
            FaultKind::Late { .. } | FaultKind::LateRecord { .. } => ensemble.end_trap(),
            FaultKind::CutAtRecord => self.cuts_at_record = begins,
            FaultKind::Mute { server } => ensemble.mute(server, begins),
            FaultKind::DeafenAt { request } => {
                let until = clock::now() + self.plan.setting.timeout;
                ensemble.deafen_at(begins.then_some((request, until)));
            }
            _ => {}
        }
    }

    /// Carries out an operator's action.
    fn apply_operator_action(&self, what: &FaultKind) {
        let mut ensemble = self.ensemble.borrow_mut();
        match *what {
            FaultKind::Kill { client } => {
                let session = self.clients.get(client).session_id();
                self.oracle.borrow_mut().killed(session);
                ensemble.expire(session);
            }
            FaultKind::Delete { place, part } => {
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
            FaultKind::Reap { place } => ensemble.reap(DIRECTORIES[place % DIRECTORIES.len()]),
            _ => {}
        }
    }

    /// Lets a stranger (a contender that is not a zklock client) join a queue for a while. Clients
    /// can see that its node exists, but cannot read it.
    fn intrude(&mut self, event: &FaultEvent, directory: &'static str, until: u64) {
        let mut ensemble = self.ensemble.borrow_mut();
        if event.begins {
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
        self.fault_events.plan(clock::now() + 10 * LOOK, event.clone());
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

    /// Waits until a queue has a suitable order (see [`Sweep`](crate::sweep::Sweep)), and deletes
    /// some of its nodes.
    ///
    /// Two contenders in the queue belong to the same client. That client is stopped while the
    /// nodes are deleted, so it receives all watch events together. The fault needs a single
    /// server: with several servers, other events could happen between two deletions.
    fn sweep(&mut self, event: &FaultEvent, until: u64) {
        if !event.begins || clock::now() >= until {
            return;
        }
        let mut ensemble = self.ensemble.borrow_mut();
        // Without a leader, no deletion would be executed.
        let is_led = ensemble.leader().is_some();
        let mut mutexes = DIRECTORIES[..2].iter().filter(|_| is_led);
        let found = mutexes.find_map(|directory| sweep::find(&mut ensemble, directory));
        let of = |sweep: &sweep::Sweep| {
            (0..self.clients.count()).find(|client| self.clients.get(*client).session_id() == sweep.session)
        };
        let Some((client, sweep)) = found.and_then(|sweep| Some((of(&sweep)?, sweep))) else {
            return self.fault_events.plan(clock::now() + LOOK, event.clone());
        };
        let mut oracle = self.oracle.borrow_mut();
        let number = self.plan.faults[event.fault].0;
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
