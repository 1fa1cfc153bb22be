//! A value of which each process has its own: several threads are first to ask for it.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::every_interleaving;
use crate::runtime::fork::PerProcess;

/// A value that shows whether it was complete when it was seen, and counts how many there are.
struct Value {
    complete: loom::cell::UnsafeCell<usize>,
    alive: Arc<AtomicUsize>,
}

// SAFETY: written before it is shared, which loom checks.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        let value = Self { complete: loom::cell::UnsafeCell::new(0), alive: Arc::clone(alive) };
        // SAFETY: nobody else has it yet.
        value.complete.with_mut(|complete| unsafe { *complete = 7 });
        value
    }

    fn is_complete(&self) -> bool {
        // SAFETY: nobody writes it any more.
        self.complete.with(|complete| unsafe { *complete == 7 })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All get the same complete value; that of the slower one is dropped, and the last one with its owner.
pub fn all_threads_get_one_value() {
    every_interleaving(|| {
        let alive = Arc::new(AtomicUsize::new(0));
        let owner = Arc::new(PerProcess::<Value>::new());
        // It comes into being here, as a static has before any thread.
        assert!(owner.get().is_none());
        let others = [(); 2].map(|()| {
            let (owner, alive) = (Arc::clone(&owner), Arc::clone(&alive));
            thread::spawn(move || {
                let value = owner.get_or_init(|| Value::new(&alive));
                assert!(value.is_complete());
                std::ptr::from_ref(value) as usize
            })
        });
        if let Some(value) = owner.get() {
            assert!(value.is_complete());
        }
        let [first, second] = others.map(|other| other.join().expect("no panic"));
        assert_eq!((first, alive.load(Ordering::Relaxed)), (second, 1));
        drop(owner);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}
