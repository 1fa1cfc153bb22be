//! Stops clients, as SIGSTOP or a full machine does: their tasks do not run, while time goes on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};

use tokio::sync::Notify;
use zklock::simulation::{Gate, Part};

use crate::clock;

/// So often the tasks of one client may run at one instant: many times as often as where more than a thousand permits are
/// asked for at once.
const MOST_RUNS: u64 = 60_000;

/// What is known of a client that has run, or was stopped.
#[derive(Debug, Default)]
struct Process {
    /// What of it panics when it runs next.
    broken: Option<Part>,
    /// The tasks that want to run, while it is stopped.
    waiting: Option<Vec<Waker>>,
    /// How often it was stopped, and has gone on.
    times: u64,
    /// When it last went on.
    since: u64,
    /// At which instant its tasks ran last, and how often.
    ran: (u64, u64),
}

/// The clients that are stopped, or were; and one that did not come to rest, and who is told of it.
#[derive(Clone, Debug, Default)]
pub struct Stopped(Rc<RefCell<BTreeMap<usize, Process>>>, Rc<Cell<Option<usize>>>, Rc<Notify>);

impl Stopped {
    /// Stops a client.
    pub fn stop(&self, client: usize) {
        let mut all = self.0.borrow_mut();
        let process = all.entry(client).or_default();
        process.times += 1;
        process.waiting.get_or_insert_default();
    }

    /// A part of a client panics when it runs next; with `None` nothing does any more.
    pub fn break_down(&self, client: usize, part: Option<Part>) {
        self.0.borrow_mut().entry(client).or_default().broken = part;
    }

    /// Lets it go on.
    pub fn go_on(&self, client: usize) {
        let mut all = self.0.borrow_mut();
        let process = all.entry(client).or_default();
        (process.times, process.since) = (process.times + 1, clock::now());
        for waker in process.waiting.take().into_iter().flatten() {
            waker.wake();
        }
    }

    /// Waits for a client that does not come to rest: time would stand still as long as it runs.
    pub async fn restless(&self) -> usize {
        loop {
            if let Some(client) = self.1.get() {
                return client;
            }
            self.2.notified().await;
        }
    }

    /// Changes when a client is stopped or goes on.
    pub fn time(&self, client: usize) -> u64 {
        self.0.borrow().get(&client).map_or(0, |process| process.times)
    }

    /// Whether a client is stopped.
    pub fn is_stopped(&self, client: usize) -> bool {
        self.0.borrow().get(&client).is_some_and(|process| process.waiting.is_some())
    }

    /// Whether a client runs, and has run at least since then.
    pub fn has_run_since(&self, client: usize, then: u64) -> bool {
        let all = self.0.borrow();
        all.get(&client).is_none_or(|process| process.waiting.is_none() && process.since <= then)
    }
}

impl Gate for Stopped {
    fn open(&self, client: usize, cx: &mut Context<'_>) -> bool {
        let mut all = self.0.borrow_mut();
        let process = all.entry(client).or_default();
        if process.waiting.is_none() {
            let now = clock::now();
            process.ran = if process.ran.0 == now { (now, process.ran.1 + 1) } else { (now, 1) };
            if process.ran.1 > MOST_RUNS {
                process.waiting = Some(Vec::new());
                self.1.set(Some(client));
                self.2.notify_one();
            }
        }
        process.waiting.as_mut().map(|waiting| waiting.push(cx.waker().clone())).is_none()
    }

    fn breaks(&self, client: usize, part: Part) -> bool {
        let mut all = self.0.borrow_mut();
        all.get_mut(&client).is_some_and(|process| process.broken.take_if(|broken| *broken == part).is_some())
    }
}
