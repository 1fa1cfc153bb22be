//! Carries the outcomes of operations from the library's thread to the JavaScript thread.
//!
//! Each JavaScript environment (the main thread and each worker) has one bridge. The library's
//! thread puts outcomes into a queue of the bridge, and then calls a napi thread-safe function, so
//! that the JavaScript thread takes them. napi has a queue for the arguments of such calls, but
//! leaks them when the environment ends, and a leaked lease would hold its lock until the process
//! exits.
//!
//! The thread-safe function exists only while a client is open or an operation runs. It does not
//! keep the process alive, but test runners that search for open handles would report it.

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

/// Time limit for closing the clients of an environment that ends.
const CLOSING: Duration = Duration::from_secs(1);

/// Notifies the JavaScript thread that outcomes have arrived. This handle is weak: it does not keep
/// the process alive, because the TypeScript part decides when the process can exit.
pub struct Wake(ThreadsafeFunction<(), (), (), Status, false, true>);

impl Wake {
    pub fn new(wake: &Function<'_, (), ()>) -> napi::Result<Self> {
        wake.build_threadsafe_function().callee_handled::<false>().weak::<true>().build().map(Self)
    }

    /// Notifies the JavaScript thread, without waiting for it. Does nothing once the environment
    /// has ended.
    pub fn call(&self) {
        self.0.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}

/// Converts the outcome of an operation to a JavaScript value, on the JavaScript thread.
type Convert = Box<dyn FnOnce(&Env) -> napi::Result<Unknown<'_>> + Send>;

type Outcome = zklock::Result<Convert>;

/// The outcome of an operation: either a value, or the code, message and details of an error.
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

/// Starts operations, and stores their outcomes until JavaScript takes them.
#[napi]
pub struct Bridge {
    shared: Arc<Shared>,
    env: Env,
    wake: FunctionRef<(), ()>,
}

struct Shared {
    /// Present while an operation runs or a client is open. Only the JavaScript thread creates and
    /// drops it.
    wake: Mutex<Option<Wake>>,
    operations: Mutex<Operations>,
    /// The clients of this environment, which are closed when it ends.
    clients: Mutex<Vec<Weak<Client>>>,
}

#[derive(Default)]
struct Operations {
    last_id: i64,
    /// The running operations. The handle is `None` while the operation is being started.
    running: HashMap<i64, Option<Operation>>,
    /// Operations that have ended and have not been taken.
    settled: Vec<(i64, Outcome)>,
    /// `true` if the JavaScript thread is about to take the outcomes, and therefore needs no
    /// notification.
    will_take: bool,
}

#[napi]
impl Bridge {
    /// Creates a bridge that calls `wake` when outcomes have arrived.
    ///
    /// When the environment ends, the bridge closes its clients and waits until they are closed.
    /// Without this wait, the process might exit before the servers have freed the locks.
    ///
    /// # Errors
    /// Returns an error if Node refuses the registration.
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

    /// Returns the operations that have ended since the last call.
    ///
    /// # Errors
    /// Returns an error if Node cannot create the values.
    #[napi]
    pub fn take<'env>(&self, env: &'env Env) -> napi::Result<Vec<Settled<'env>>> {
        let settled = std::mem::take(&mut self.shared.operations().settled);
        self.shared.drop_unused_wake();
        settled.into_iter().map(|(id, outcome)| Settled::new(env, id, outcome)).collect()
    }

    /// Cancels an operation: drops its future, or its outcome if it has already ended.
    #[napi]
    pub fn cancel(&self, id: i64) {
        let mut operations = self.shared.operations();
        let running = operations.running.remove(&id);
        let settled = operations.settled.iter().position(|(settled, _)| *settled == id);
        let settled = settled.map(|index| operations.settled.remove(index));
        // Dropping the operation or its outcome runs code of the core, so this mutex must be
        // unlocked first.
        drop(operations);
        drop((running, settled));
    }
}

impl Bridge {
    /// Creates the thread-safe function if there is none, so that the next outcome is delivered.
    fn ensure_wake(&self) -> Result<()> {
        let mut wake = self.shared.wake();
        if wake.is_none() {
            let made = self.wake.borrow_back(&self.env).and_then(|call| Wake::new(&call));
            // Use the error code of a library thread that cannot be started.
            let refused =
                |error: napi::Error| Failure { code: "CONNECTION_FAILED", message: error.reason.clone() };
            *wake = Some(made.map_err(refused)?);
        }
        Ok(())
    }

    /// Runs `work`, such as a release, on the JavaScript thread. If `work` completes other
    /// operations, for example because it hands the lock to a waiting scope, delivers their
    /// outcomes immediately: without another thread, and without an iteration of the event loop.
    ///
    /// Delivery only resolves JavaScript promises. The program's code runs after this call has
    /// returned.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.operations().will_take = true;
        let done = same_thread::carry_on_woken(work);
        let mut operations = self.shared.operations();
        operations.will_take = false;
        let any = !operations.settled.is_empty();
        drop(operations);
        if any && self.wake.borrow_back(&self.env).and_then(|wake| wake.call(())).is_err() {
            // Deliver the outcomes in a later iteration of the event loop.
            self.shared.wake().as_ref().inspect(|wake| wake.call());
        }
        done
    }

    /// Registers a client, so that it is closed when the environment ends.
    pub fn close_at_end(&self, client: &Arc<Client>) {
        let mut clients = self.shared.clients();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    /// Starts `future` and returns the id of its outcome.
    ///
    /// Polls the future once here, so that operations begin in the order of the JavaScript calls.
    /// For example, if a holder calls `acquire()` and then `release()`, the acquire begins while
    /// the lock is still held, so it is a re-entry.
    pub fn start<T>(&self, future: impl Future<Output = zklock::Result<T>> + Send + 'static) -> Result<i64>
    where
        T: ToNapiValue + Send + 'static,
    {
        self.ensure_wake()?;
        let id = {
            let mut operations = self.shared.operations();
            operations.last_id += 1;
            let id = operations.last_id;
            operations.running.insert(id, None);
            id
        };
        let shared = Arc::clone(&self.shared);
        match internal::begin(future, move |result| shared.store_outcome(id, result.map(boxed))) {
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

    /// Drops the thread-safe function if it is no longer needed, because no operation runs and all
    /// clients are closed.
    fn drop_unused_wake(&self) {
        let operations = self.operations();
        let busy = !operations.running.is_empty() || !operations.settled.is_empty();
        drop(operations);
        // The next operation starts on this thread, so it cannot start before this function
        // returns.
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

    /// Drops all operations and closes the clients, when the environment ends. An outcome that
    /// arrives later belongs to no operation, so it is dropped.
    fn end(&self) {
        let operations = std::mem::take(&mut *self.operations());
        drop(operations);
        let clients: Vec<_> = self.clients().drain(..).filter_map(|client| client.upgrade()).collect();
        internal::close_all(clients.iter().map(AsRef::as_ref), CLOSING);
    }

    /// Stores an outcome. Runs on the library's thread.
    fn store_outcome(&self, id: i64, outcome: Outcome) {
        let mut operations = self.operations();
        let operation = operations.running.remove(&id);
        let wake = if operation.is_some() {
            operations.settled.push((id, outcome));
            // Later outcomes need no notification, because JavaScript takes all of them together.
            operations.settled.len() == 1 && !operations.will_take
        } else {
            // The operation was canceled. Dropping the outcome releases a lock that the operation
            // might have acquired.
            drop(operations);
            drop(outcome);
            return;
        };
        drop(operations);
        drop(operation);
        if wake {
            // Absent if the outcome was taken in the meantime.
            self.wake().as_ref().inspect(|wake| wake.call());
        }
    }
}
