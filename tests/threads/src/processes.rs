//! Tests of a value that exists once per process and that several threads request at the same time.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::every_interleaving;
use crate::runtime::fork::PerProcess;

/// A value that counts its instances. A reader can check that the value was complete.
struct Value {
    complete: loom::cell::UnsafeCell<usize>,
    alive: Arc<AtomicUsize>,
}

// SAFETY: the value is written before it is shared. Loom checks this.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        let value = Self { complete: loom::cell::UnsafeCell::new(0), alive: Arc::clone(alive) };
        // SAFETY: no other thread has the value yet.
        value.complete.with_mut(|complete| unsafe { *complete = 7 });
        value
    }

    fn is_complete(&self) -> bool {
        // SAFETY: no thread writes the value after it was shared.
        self.complete.with(|complete| unsafe { *complete == 7 })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All threads get the same complete value. If two threads create a value, the slower thread drops
/// its own.
pub fn all_threads_get_one_value() {
    every_interleaving(|| {
        let alive = Arc::new(AtomicUsize::new(0));
        let owner = Arc::new(PerProcess::<Value>::new());
        // Initialize it before any thread starts, like a static.
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
