//! Replaces `core/src/runtime/sync.rs`: exports loom's types, and implements types that loom lacks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread_local;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering;

/// An atomic pointer for a static. Loom's pointer cannot be created in a static, so it is created
/// on first use.
pub(crate) struct AtomicPtr<T> {
    shared: std::sync::OnceLock<loom::sync::atomic::AtomicPtr<T>>,
    first: *mut T,
}

// SAFETY: as for the standard library's type. After creation, `first` is used only through `&mut`.
unsafe impl<T> Send for AtomicPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for AtomicPtr<T> {}

impl<T> AtomicPtr<T> {
    pub(crate) const fn new(first: *mut T) -> Self {
        Self { shared: std::sync::OnceLock::new(), first }
    }

    fn shared(&self) -> &loom::sync::atomic::AtomicPtr<T> {
        self.shared.get_or_init(|| loom::sync::atomic::AtomicPtr::new(self.first))
    }

    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.shared().load(order)
    }

    pub(crate) fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.shared().compare_exchange(current, new, success, failure)
    }

    pub(crate) fn get_mut(&mut self) -> &mut *mut T {
        let now = self.shared().load(Ordering::Relaxed);
        self.first = now;
        &mut self.first
    }
}

/// Replaces the standard library's `OnceLock`, a value that is set once. A thread that gets the
/// value also sees everything that happened before it was set.
pub(crate) struct OnceLock<T> {
    there: AtomicBool,
    setting: Mutex<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: as for the standard library's type. The value is written under the lock and read only
// afterwards.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { there: AtomicBool::new(false), setting: Mutex::new(()), value: UnsafeCell::new(None) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: a value that was set is not written again.
        self.there.load(Ordering::Acquire).then(|| self.value.with(|value| unsafe { (*value).as_ref() }))?
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.get().is_none() {
                let made = make();
                // SAFETY: the value is written under the lock, and no thread reads it before it is
                // set.
                self.value.with_mut(|value| unsafe { *value = Some(made) });
                self.there.store(true, Ordering::Release);
            }
            drop(setting);
        }
        self.get().expect("it was set")
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLock").field(&self.get()).finish()
    }
}

/// Replaces tokio's `Notify`. It has only `notified` and `notify_waiters`. A call of
/// `notify_waiters` wakes every future that was created before the call.
#[derive(Debug)]
pub(crate) struct Notify {
    calls: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

impl Default for Notify {
    fn default() -> Self {
        Self { calls: AtomicUsize::new(0), waiting: Mutex::new(Vec::new()) }
    }
}

impl Notify {
    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified { notify: self, made: self.calls.load(Ordering::SeqCst) }
    }

    pub(crate) fn notify_waiters(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.fetch_add(1, Ordering::SeqCst);
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }
}

pub(crate) struct Notified<'a> {
    notify: &'a Notify,
    made: usize,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.notify.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.notify.calls.load(Ordering::SeqCst) != self.made {
            return Poll::Ready(());
        }
        waiting.push(context.waker().clone());
        Poll::Pending
    }
}
