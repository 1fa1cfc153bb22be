//! Carries the outcomes of operations from the library's thread to the JavaScript thread.
//!
//! There is one bridge per JavaScript environment (the main thread, each worker). An outcome waits here, and
//! not in the queue of the thread-safe function, because that queue leaks what is in it when the environment
//! ends, and a leaked lease would hold its lock for as long as the process lives.
//!
//! The thread-safe function exists only while a client is open or an operation runs. It keeps no process alive, but test
//! runners that look for what a test left open would find it, and could not know that.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use napi::bindgen_prelude::{Function, FunctionRef, ToNapiValue, Unknown};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;
use zklock::internal::{self, Operation, same_thread};
use zklock::{Client, ClientState};

use crate::error::{Failure, NativeDetails, Result};

/// How long the end of an environment waits for its clients to close.
const CLOSING: Duration = Duration::from_secs(1);

/// A call from the library's threads to the JavaScript thread: there is something to take. Weak: it does not keep the
/// process alive, TypeScript decides that.
pub struct Wake(ThreadsafeFunction<(), (), (), Status, false, true>);

impl Wake {
    pub fn new(wake: &Function<'_, (), ()>) -> napi::Result<Self> {
        wake.build_threadsafe_function().callee_handled::<false>().weak::<true>().build().map(Self)
    }

    /// Returns at once. Does nothing once the environment has ended.
    pub fn call(&self) {
        self.0.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}

/// Converts the outcome of an operation to a JavaScript value, on the JavaScript thread.
type Convert = Box<dyn FnOnce(&Env) -> napi::Result<Unknown<'_>> + Send>;

type Outcome = zklock::Result<Convert>;

/// An operation that has ended: with a value, or with an error's code, message and details.
#[napi(object, object_from_js = false)]
pub struct Settled<'env> {
    pub id: i64,
    #[napi(ts_type = "unknown")]
    pub value: Option<Unknown<'env>>,
    pub code: Option<&'static str>,
    pub message: Option<String>,
    pub details: Option<NativeDetails>,
}

impl<'env> Settled<'env> {
    fn new(env: &'env Env, id: i64, outcome: Outcome) -> napi::Result<Self> {
        Ok(match outcome {
            Ok(convert) => Self { id, value: Some(convert(env)?), code: None, message: None, details: None },
            Err(error) => {
                let details = Some(NativeDetails::from(&error));
                let Failure { code, message } = error.into();
                Self { id, value: None, code: Some(code), message: Some(message), details }
            }
        })
    }
}

fn boxed<T: ToNapiValue + Send + 'static>(value: T) -> Convert {
    Box::new(move |env| value.into_unknown(env))
}

/// Starts operations, and keeps their outcomes until JavaScript takes them.
#[napi]
pub struct Bridge {
    shared: Arc<Shared>,
    env: Env,
    wake: FunctionRef<(), ()>,
}

struct Shared {
    /// There while there is something to tell, now or later; created and dropped by the JavaScript thread only.
    wake: Mutex<Option<Wake>>,
    operations: Mutex<Operations>,
    /// The clients of this environment, to be closed with it.
    clients: Mutex<Vec<Weak<Client>>>,
}

#[derive(Default)]
struct Operations {
    last_id: i64,
    /// Started, not ended, not cancelled. The handle is absent while the operation is being started.
    running: HashMap<i64, Option<Operation>>,
    /// Ended, not yet taken.
    settled: Vec<(i64, Outcome)>,
    /// The JavaScript thread is about to look: nobody need call it.
    looks: bool,
}

#[napi]
impl Bridge {
    /// A bridge that calls `wake` when there are outcomes to take.
    ///
    /// When the environment ends, its clients are closed: its handles are dropped then, but that only begins the
    /// closing, and if the process ends with a worker, nothing would wait for the closing to complete.
    ///
    /// # Errors
    /// If Node refuses.
    #[napi(constructor)]
    pub fn new(env: Env, wake: Function<'_, (), ()>) -> napi::Result<Self> {
        let shared = Arc::new(Shared {
            wake: Mutex::default(),
            operations: Mutex::default(),
            clients: Mutex::default(),
        });
        env.add_env_cleanup_hook(Arc::clone(&shared), |shared| shared.end())?;
        Ok(Self { shared, env, wake: wake.create_ref()? })
    }

    /// The operations that have ended since the last call.
    ///
    /// # Errors
    /// If Node refuses.
    #[napi]
    pub fn take<'env>(&self, env: &'env Env) -> napi::Result<Vec<Settled<'env>>> {
        let settled = std::mem::take(&mut self.shared.operations().settled);
        self.shared.rest();
        settled.into_iter().map(|(id, outcome)| Settled::new(env, id, outcome)).collect()
    }

    /// Gives an operation up: its future is dropped, or its outcome if it has ended already.
    #[napi]
    pub fn cancel(&self, id: i64) {
        let mut operations = self.shared.operations();
        let running = operations.running.remove(&id);
        let settled = operations.settled.iter().position(|(settled, _)| *settled == id);
        let settled = settled.map(|index| operations.settled.remove(index));
        // Both run code of core when dropped.
        drop(operations);
        drop((running, settled));
    }
}

impl Bridge {
    /// Sees to it that the next outcome is told.
    fn awake(&self) -> Result<()> {
        let mut wake = self.shared.wake();
        if wake.is_none() {
            let made = self.wake.borrow_back(&self.env).and_then(|call| Wake::new(&call));
            // As when there is no thread to run the operation on.
            let refused =
                |error: napi::Error| Failure { code: "CONNECTION_FAILED", message: error.reason.clone() };
            *wake = Some(made.map_err(refused)?);
        }
        Ok(())
    }

    /// Does some work on the JavaScript thread. Operations that it wakes go on here, and what has ended when the work has
    /// is told at once: a lock that is handed on within one environment needs no other thread, and no turn of the loop.
    ///
    /// JavaScript only resolves promises when it is told; the program's code follows when this call has returned.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.operations().looks = true;
        let done = same_thread::carry_on_woken(work);
        let mut operations = self.shared.operations();
        operations.looks = false;
        let any = !operations.settled.is_empty();
        drop(operations);
        if any && self.wake.borrow_back(&self.env).and_then(|wake| wake.call(())).is_err() {
            // If it can still be told, then in a turn of its own.
            self.shared.wake().as_ref().inspect(|wake| wake.call());
        }
        done
    }

    /// Registers a client to be closed with the environment, if it still exists then.
    pub fn close_at_end(&self, client: &Arc<Client>) {
        let mut clients = self.shared.clients();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    /// Starts `future` and returns the id under which its outcome will be taken.
    ///
    /// It is polled here first, so operations begin in the order in which JavaScript asked: an owner that
    /// acquires and then releases is seen to hold still when the acquire begins.
    pub fn start<T>(&self, future: impl Future<Output = zklock::Result<T>> + Send + 'static) -> Result<i64>
    where
        T: ToNapiValue + Send + 'static,
    {
        self.awake()?;
        let id = {
            let mut operations = self.shared.operations();
            operations.last_id += 1;
            let id = operations.last_id;
            operations.running.insert(id, None);
            id
        };
        let shared = Arc::clone(&self.shared);
        match internal::begin(future, move |result| shared.settle(id, result.map(boxed))) {
            Ok(begun) => {
                if let Some(operation) = self.shared.operations().running.get_mut(&id) {
                    *operation = Some(begun);
                }
                Ok(id)
            }
            Err(error) => {
                self.shared.operations().running.remove(&id);
                Err(error.into())
            }
        }
    }
}

impl Shared {
    fn operations(&self) -> MutexGuard<'_, Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Weak<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) -> MutexGuard<'_, Option<Wake>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the thread-safe function if nothing can call it: nothing runs, and there is no client to run anything on.
    fn rest(&self) {
        let operations = self.operations();
        let busy = !operations.running.is_empty() || !operations.settled.is_empty();
        drop(operations);
        // The next operation, if there ever is one, starts on this thread, and so not before this is done.
        if !busy
            && self
                .clients()
                .iter()
                .filter_map(Weak::upgrade)
                .all(|client| client.state() == ClientState::Closed)
        {
            *self.wake() = None;
        }
    }

    /// Ends with the environment. From here on, outcomes find that their operation is gone, and are dropped.
    fn end(&self) {
        let operations = std::mem::take(&mut *self.operations());
        drop(operations);
        let clients: Vec<_> = self.clients().drain(..).filter_map(|client| client.upgrade()).collect();
        internal::close_all(clients.iter().map(AsRef::as_ref), CLOSING);
    }

    /// Runs on the library's thread.
    fn settle(&self, id: i64, outcome: Outcome) {
        let mut operations = self.operations();
        let operation = operations.running.remove(&id);
        let wake = if operation.is_some() {
            operations.settled.push((id, outcome));
            // One call wakes JavaScript for everything that is there when it gets to it.
            operations.settled.len() == 1 && !operations.looks
        } else {
            // Cancelled: dropping the outcome releases what it may have acquired.
            drop(operations);
            drop(outcome);
            return;
        };
        drop(operations);
        drop(operation);
        if wake {
            // There, unless the outcome was taken just now.
            self.wake().as_ref().inspect(|wake| wake.call());
        }
    }
}
