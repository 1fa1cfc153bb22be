//! Tests of the operations (futures) that bindings start. The tests wake them at different times
//! (at the start, twice, after the end), cancel them, and poll them on a thread of the binding.

use std::future::{Future, poll_fn};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::every_interleaving;
use crate::operation::begin;
use crate::runtime::LibraryThread;
use crate::same_thread::carry_on_woken;

/// A one-shot event that a future waits for. It uses loom's lock.
#[derive(Default)]
struct Signal(Mutex<(bool, Vec<Waker>)>);

impl Signal {
    fn give(&self) {
        let wakers = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn given(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        poll_fn(move |context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        })
    }
}

/// Counts deliveries and dropped futures.
#[derive(Default)]
struct Counts {
    delivered: AtomicUsize,
    dropped: AtomicUsize,
}

struct CountsDrop(Arc<Counts>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Creates a test operation with its counters.
fn operation(
    signal: &Arc<Signal>,
) -> (impl Future<Output = ()> + Send + 'static, impl FnOnce(()) + Send + 'static, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let (given, drops, delivers) =
        (Arc::clone(signal).given(), CountsDrop(Arc::clone(&counts)), Arc::clone(&counts));
    let future = async move {
        let _drops = drops;
        given.await;
    };
    let deliver = move |()| {
        delivers.delivered.fetch_add(1, Ordering::Relaxed);
    };
    (future, deliver, counts)
}

impl Counts {
    fn now(&self) -> (usize, usize) {
        (self.delivered.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

/// The event arrives while the operation starts. The operation completes and delivers its result
/// once.
pub fn woken_while_it_begins() {
    every_interleaving(|| {
        let library = LibraryThread::start();
        let signal = Arc::<Signal>::default();
        let (future, deliver, counts) = operation(&signal);
        let gives = thread::spawn(move || signal.give());
        let operation = begin(future, deliver).expect("it begins");
        gives.join().expect("no panic");
        let tasks = library.stop();
        assert_eq!(counts.now(), (1, 1));
        assert!(tasks <= 1, "it became {tasks} tasks");
        drop(operation);
        assert_eq!(counts.now(), (1, 1));
    });
}

/// An operation is canceled while its event arrives. Its future is dropped once, and no thread
/// waits forever.
pub fn cancelled_while_it_is_woken() {
    every_interleaving(|| {
        let library = LibraryThread::start();
        let signal = Arc::<Signal>::default();
        let (future, deliver, counts) = operation(&signal);
        let operation = begin(future, deliver).expect("it begins");
        let gives = thread::spawn(move || signal.give());
        drop(operation);
        gives.join().expect("no panic");
        library.stop();
        let (delivered, dropped) = counts.now();
        assert!(delivered <= 1 && dropped == 1, "delivered {delivered} times, dropped {dropped} times");
    });
}

/// Two threads wake an operation at the same time. The library's thread runs only one task for it.
pub fn woken_twice_it_becomes_one_task() {
    every_interleaving(|| {
        let library = LibraryThread::start();
        let signal = Arc::<Signal>::default();
        let (future, deliver, counts) = operation(&signal);
        let operation = begin(future, deliver).expect("it begins");
        let waker = signal.0.lock().unwrap_or_else(PoisonError::into_inner).1[0].clone();
        let wakes = thread::spawn(move || waker.wake());
        signal.give();
        wakes.join().expect("no panic");
        assert_eq!(library.stop(), 1);
        assert_eq!(counts.now(), (1, 1));
        drop(operation);
    });
}

/// One thread wakes an operation and polls it immediately, while another thread also wakes it. The
/// operation completes and delivers its result once.
pub fn woken_by_the_thread_that_continues_it_and_by_another() {
    every_interleaving(|| {
        let library = LibraryThread::start();
        let signal = Arc::<Signal>::default();
        let (future, deliver, counts) = operation(&signal);
        let operation = begin(future, deliver).expect("it begins");
        let waker = signal.0.lock().unwrap_or_else(PoisonError::into_inner).1[0].clone();
        let wakes = thread::spawn(move || waker.wake());
        carry_on_woken(|| signal.give());
        wakes.join().expect("no panic");
        library.stop();
        assert_eq!(counts.now(), (1, 1));
        drop(operation);
    });
}

/// A thread cancels an operation while another thread continues it. Its future is dropped once.
pub fn cancelled_while_another_thread_continues_it() {
    every_interleaving(|| {
        let library = LibraryThread::start();
        let signal = Arc::<Signal>::default();
        let (future, deliver, counts) = operation(&signal);
        let operation = begin(future, deliver).expect("it begins");
        let cancels = thread::spawn(move || drop(operation));
        carry_on_woken(|| signal.give());
        cancels.join().expect("no panic");
        library.stop();
        let (delivered, dropped) = counts.now();
        assert!(delivered <= 1 && dropped == 1, "delivered {delivered} times, dropped {dropped} times");
    });
}
