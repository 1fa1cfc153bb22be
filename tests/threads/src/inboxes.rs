//! Tests of the inboxes of the Python binding: some threads add items while other threads take
//! items or close the inbox.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::every_interleaving;

#[allow(dead_code, reason = "the binding uses all of it")]
#[path = "../../../bindings-python/src/bridge/arrivals.rs"]
mod arrivals;
#[allow(dead_code, reason = "the binding uses all of it")]
#[path = "../../../bindings-python/src/callbacks/queue.rs"]
mod queue;

use arrivals::Arrivals;
use queue::Queue;

/// Two threads add items while a third thread takes items until the queue ends. Each item is taken
/// once, and the third thread does not wait forever.
pub fn a_queue_is_filled_while_it_is_emptied() {
    every_interleaving(|| {
        let queue = Arc::<Queue<usize>>::default();
        let others = [1, 2].map(|number| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.push(number))
        });
        let mut taken = [queue.take(), queue.take()];
        taken.sort_unstable();
        assert_eq!(taken, [Some(1), Some(2)]);
        for other in others {
            other.join().expect("no panic");
        }
        queue.end();
        assert_eq!(queue.take(), None);
    });
}

/// A queue is closed while one thread adds an item and another thread waits for items. The waiting
/// thread still takes the items that were added before the close, and then ends.
pub fn a_queue_ends_while_its_thread_waits() {
    every_interleaving(|| {
        let queue = Arc::<Queue<usize>>::default();
        assert!(queue.begin() && !queue.begin());
        let theirs = Arc::clone(&queue);
        let takes = thread::spawn(move || std::iter::from_fn(|| theirs.take()).count());
        let theirs = Arc::clone(&queue);
        let ends = thread::spawn(move || theirs.end());
        queue.push(1);
        assert!(ends.join().expect("no panic"));
        let taken = takes.join().expect("no panic");
        // An item that was added after the end is not taken.
        let left = usize::from(queue.take().is_some());
        assert_eq!(taken + left, 1);
    });
}

/// Two threads add items. If `push` returns `true`, the thread runs the receiver, which takes all
/// items. In the end, no item is left.
pub fn every_arrival_is_taken_by_a_wake_up() {
    every_interleaving(|| {
        let inbox = Arc::<Arrivals<usize>>::default();
        let taken = Arc::new(AtomicUsize::new(0));
        let others = [1, 2].map(|number| {
            let (inbox, taken) = (Arc::clone(&inbox), Arc::clone(&taken));
            thread::spawn(move || {
                let wakes = inbox.push(number);
                if wakes {
                    // The wake-up runs later, on any thread.
                    thread::yield_now();
                    taken.fetch_add(inbox.lock().take().len(), Ordering::Relaxed);
                }
                usize::from(wakes)
            })
        });
        let wake_ups: usize = others.into_iter().map(|other| other.join().expect("no panic")).sum();
        assert_eq!((taken.load(Ordering::Relaxed), inbox.lock().all().len()), (2, 0));
        assert!((1..=2).contains(&wake_ups));
    });
}

/// The receiver takes all items and stops while another item arrives. Either the receiver takes
/// that item, too, or `push` reports that the receiver must be woken again.
pub fn an_arrival_against_the_end_of_its_receiver() {
    every_interleaving(|| {
        let inbox = Arc::<Arrivals<usize>>::default();
        assert!(inbox.push(1));
        let theirs = Arc::clone(&inbox);
        let arrives = thread::spawn(move || theirs.push(2));
        let taken = inbox.lock().take().len();
        let another_wake_up = arrives.join().expect("no panic");
        assert_eq!((taken, inbox.lock().all().len()), if another_wake_up { (1, 1) } else { (2, 0) });
    });
}
