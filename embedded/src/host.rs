//! The task that owns the state machine. It passes the connections' messages and the time to the
//! machine, and carries out the faults that tests request.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::connection_task::{DelayedBytes, Input, Peer};
use crate::connections::ConnectionId;
use crate::replies::Output;
use crate::settings::{Settings, Time};
use crate::state_machine::Machine;

/// Maximum delay. Without a limit, adding a delay to an instant could overflow.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A test's request, which runs between two inputs.
pub(crate) type Control = Box<dyn FnOnce(&mut Host) + Send>;

/// The state machine and its connections.
pub(crate) struct Host {
    machine: Machine,
    peers: BTreeMap<ConnectionId, Peer>,
    clock: Clock,
    gate: watch::Sender<bool>,
    latency: Duration,
}

impl Host {
    pub(crate) fn new(settings: Settings, gate: watch::Sender<bool>) -> Self {
        let clock = Clock { begun: Instant::now(), stood: Duration::ZERO, standing: None };
        let machine = Machine::new(settings, clock.now());
        Host { machine, peers: BTreeMap::new(), clock, gate, latency: Duration::ZERO }
    }

    /// Runs until the future is dropped or all input channels are closed.
    pub(crate) async fn run(
        mut self,
        tick: Duration,
        mut inputs: mpsc::Receiver<Input>,
        mut controls: mpsc::UnboundedReceiver<Control>,
    ) {
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let awake = self.clock.standing.is_none();
            tokio::select! {
                biased;
                Some(control) = controls.recv() => control(&mut self),
                _ = ticks.tick(), if awake => self.machine.tick(self.clock.now()),
                input = inputs.recv(), if awake => match input {
                    None => return,
                    Some(input) => self.take(input),
                },
            }
            self.deliver();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Opened(id, address, peer) => {
                self.machine.connect(id, address);
                self.peers.insert(id, peer);
            }
            Input::Message(id, message) => self.machine.receive(id, message, self.clock.now()),
            Input::Closed(id) => {
                self.machine.disconnect(id);
                self.peers.remove(&id);
            }
        }
    }

    fn deliver(&mut self) {
        let outputs = self.machine.take_outputs();
        if outputs.is_empty() {
            return;
        }
        let due = (!self.latency.is_zero()).then(|| Instant::now() + self.latency);
        for output in outputs {
            match output {
                Output::Send(id, message) => {
                    if let Some(peer) = self.peers.get(&id) {
                        // The send fails if the connection has just closed. The connection's next
                        // input reports that.
                        peer.parcels.send(DelayedBytes { due, bytes: message.frame() }).unwrap_or_default();
                    }
                }
                // The connection's task writes the remaining bytes and exits.
                Output::Close(id) => drop(self.peers.remove(&id)),
            }
        }
    }

    pub(crate) fn expire(&mut self, session: i64) -> bool {
        self.machine.expire(session)
    }

    pub(crate) fn disconnect(&mut self, session: i64) -> bool {
        let Some(id) = self.machine.connection(session) else { return false };
        self.machine.disconnect(id);
        if let Some(peer) = self.peers.remove(&id) {
            // The send fails if the connection is already closing.
            peer.cut.send(()).unwrap_or_default();
        }
        true
    }

    pub(crate) fn pause(&mut self) {
        // Returns once no connection is reading or writing.
        self.gate.send_replace(false);
        self.clock.stop();
    }

    pub(crate) fn resume(&mut self) {
        self.clock.go_on();
        self.gate.send_replace(true);
    }

    pub(crate) fn set_latency(&mut self, latency: Duration) {
        self.latency = latency.min(LONGEST);
    }

    pub(crate) fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.machine.tree()
    }
}

/// The clock for session timeouts. It stops during a pause.
struct Clock {
    begun: Instant,
    /// Total duration of the completed pauses.
    stood: Duration,
    standing: Option<Instant>,
}

impl Clock {
    fn now(&self) -> Time {
        let now = self.standing.unwrap_or_else(Instant::now);
        let elapsed = (now - self.begun).saturating_sub(self.stood);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time {
            wall: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
            elapsed: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn stop(&mut self) {
        self.standing.get_or_insert_with(Instant::now);
    }

    fn go_on(&mut self) {
        if let Some(since) = self.standing.take() {
            self.stood += since.elapsed();
        }
    }
}
