//! Stops clients as SIGSTOP would: their tasks do not run while simulated time advances.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};

use tokio::sync::Notify;
use zklock::simulation::{Gate, Part};

use crate::clock;

/// Maximum number of times that a client's tasks can run before simulated time advances. If they
/// run more often, the client is in an endless loop. Even a client that requests more than a
/// thousand permits at the same time needs far fewer runs.
const MOST_RUNS: u64 = 60_000;

/// The state of a client that has run or was stopped.
#[derive(Debug, Default)]
struct Process {
    /// The part of the client that must panic when it runs next.
    broken: Option<Part>,
    /// The tasks that must run when the client continues, or `None` if the client is running.
    waiting: Option<Vec<Waker>>,
    /// Number of times that the client was stopped or continued.
    times: u64,
    /// Time at which the client last continued.
    since: u64,
    /// The last instant at which the client's tasks ran, and the number of runs at that instant.
    ran: (u64, u64),
}

/// The state of all clients, the client that is in an endless loop (if any), and the notification
/// that such a client exists.
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

    /// Makes this part of a client panic when it runs next. With `None`, no part panics.
    pub fn break_down(&self, client: usize, part: Option<Part>) {
        self.0.borrow_mut().entry(client).or_default().broken = part;
    }

    /// Resumes a client.
    pub fn go_on(&self, client: usize) {
        let mut all = self.0.borrow_mut();
        let process = all.entry(client).or_default();
        (process.times, process.since) = (process.times + 1, clock::now());
        for waker in process.waiting.take().into_iter().flatten() {
            waker.wake();
        }
    }

    /// Waits until a client is in an endless loop, and returns that client. Simulated time cannot
    /// advance during the loop.
    pub async fn runaway_client(&self) -> usize {
        loop {
            if let Some(client) = self.1.get() {
                return client;
            }
            self.2.notified().await;
        }
    }

    /// Number of times that a client was stopped or continued. If two calls return the same number,
    /// the client was not stopped between them.
    pub fn time(&self, client: usize) -> u64 {
        self.0.borrow().get(&client).map_or(0, |process| process.times)
    }

    /// Returns `true` if a client is stopped.
    pub fn is_stopped(&self, client: usize) -> bool {
        self.0.borrow().get(&client).is_some_and(|process| process.waiting.is_some())
    }

    /// Returns `true` if a client is running now and has not been stopped since the time `then`.
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
