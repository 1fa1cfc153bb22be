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

use napi::bindgen_prelude::{Function, FunctionRef, JsValuesTupleIntoVec, ToNapiValue, Unknown};
use napi::sys::{napi_env, napi_value};
use napi::threadsafe_function::{ThreadsafeCallContext, ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, JsValue, Status};
use napi_derive::napi;
use zklock::internal::{self, Operation, same_thread};
use zklock::{Client, ClientState};

use crate::error::{Failure, NativeDetails, Result};

/// Time limit for closing the clients of an environment that ends.
const CLOSING: Duration = Duration::from_secs(1);

/// Notifies the JavaScript thread that outcomes have arrived. This handle is weak: it does not keep
/// the process alive, because the TypeScript part decides when the process can exit.
pub struct Wake<Args: 'static + JsValuesTupleIntoVec = ()>(
    ThreadsafeFunction<(), (), Args, Status, false, true>,
);

impl Wake {
    pub fn new(wake: &Function<'_, (), ()>) -> napi::Result<Self> {
        wake.build_threadsafe_function().callee_handled::<false>().weak::<true>().build().map(Self)
    }
}

impl<Args: 'static + JsValuesTupleIntoVec> Wake<Args> {
    /// Notifies the JavaScript thread, without waiting for it. Does nothing once the environment
    /// has ended.
    pub fn call(&self) {
        self.0.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}

/// Converts the outcome of an operation to a JavaScript value, on the JavaScript thread.
type Convert = Box<dyn FnOnce(&Env) -> napi::Result<Unknown<'_>> + Send>;

type Outcome = zklock::Result<Convert>;

/// The JavaScript function that receives the outcomes.
type Settle<'env> = Function<'env, Delivery, ()>;

/// The arguments of a call of the JavaScript function: the id of an operation, and its value or its
/// error. No arguments if there is no outcome.
pub struct Delivery(Option<(i64, Outcome)>);

impl JsValuesTupleIntoVec for Delivery {
    fn into_vec(self, env: napi_env) -> napi::Result<Vec<napi_value>> {
        let Some((id, outcome)) = self.0 else { return Ok(Vec::new()) };
        let env = &Env::from_raw(env);
        let id = id.into_unknown(env)?.raw();
        Ok(match outcome {
            Ok(convert) => vec![id, convert(env)?.raw()],
            Err(error) => {
                let details = NativeDetails::from(&error);
                let Failure { code, message } = error.into();
                let failure = NativeFailure { code, message, details };
                vec![id, ().into_unknown(env)?.raw(), failure.into_unknown(env)?.raw()]
            }
        })
    }
}

/// The error of an operation.
#[napi(object, object_from_js = false)]
pub struct NativeFailure {
    pub code: &'static str,
    pub message: String,
    pub details: NativeDetails,
}

fn boxed<T: ToNapiValue + Send + 'static>(value: T) -> Convert {
    Box::new(move |env| value.into_unknown(env))
}

/// Starts operations, and stores their outcomes until JavaScript takes them.
#[napi]
pub struct Bridge {
    shared: Arc<Shared>,
    env: Env,
    settle: FunctionRef<Delivery, ()>,
}

struct Shared {
    /// Present while an operation runs or a client is open. Only the JavaScript thread sets it. It is
    /// called while this is unlocked, because the JavaScript thread starts the next operation before
    /// the call returns.
    wake: Mutex<Option<Arc<Wake<Delivery>>>>,
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
    /// Creates a bridge that calls `settle` with each outcome.
    ///
    /// When the environment ends, the bridge closes its clients and waits until they are closed.
    /// Without this wait, the process might exit before the servers have freed the locks.
    ///
    /// # Errors
    /// Returns an error if Node refuses the registration.
    #[napi(
        constructor,
        ts_args_type = "settle: (id: number, value: unknown, failure?: NativeFailure) => void"
    )]
    pub fn new(env: Env, settle: Settle<'_>) -> napi::Result<Self> {
        let shared = Arc::new(Shared {
            wake: Mutex::default(),
            operations: Mutex::default(),
            clients: Mutex::default(),
        });
        env.add_env_cleanup_hook(Arc::clone(&shared), |shared| shared.end())?;
        Ok(Self { shared, env, settle: settle.create_ref()? })
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
            let made = self.settle.borrow_back(&self.env).and_then(|settle| self.shared.new_wake(&settle));
            // Use the error code of a library thread that cannot be started.
            let refused =
                |error: napi::Error| Failure { code: "CONNECTION_FAILED", message: error.reason.clone() };
            *wake = Some(Arc::new(made.map_err(refused)?));
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
        if any && self.settle.borrow_back(&self.env).and_then(|settle| self.shared.deliver(&settle)).is_err()
        {
            // Deliver the outcomes in a later iteration of the event loop.
            self.shared.call_wake();
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

    fn wake(&self) -> MutexGuard<'_, Option<Arc<Wake<Delivery>>>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the JavaScript thread, unless it has already taken the outcomes.
    fn call_wake(&self) {
        let wake = self.wake().clone();
        wake.inspect(|wake| wake.call());
    }

    /// Creates the thread-safe function, which delivers all outcomes whenever it is called.
    fn new_wake(self: &Arc<Self>, settle: &Settle<'_>) -> napi::Result<Wake<Delivery>> {
        // A strong reference would be circular.
        let (shared, settle_ref) = (Arc::downgrade(self), settle.create_ref()?);
        let builder = settle.build_threadsafe_function().callee_handled::<false>().weak::<true>();
        // napi calls `settle` with the result of this function.
        let deliver = move |context: ThreadsafeCallContext<()>| {
            let Some(shared) = shared.upgrade() else { return Ok(Delivery(None)) };
            shared.deliver_all_but_last(&settle_ref.borrow_back(&context.env)?)
        };
        builder.build_callback(deliver).map(Wake)
    }

    /// Calls `settle` with every outcome.
    fn deliver(&self, settle: &Settle<'_>) -> napi::Result<()> {
        settle.call(self.deliver_all_but_last(settle)?)
    }

    /// Calls `settle` with every outcome but the last one, and returns the last one.
    fn deliver_all_but_last(&self, settle: &Settle<'_>) -> napi::Result<Delivery> {
        let mut settled = std::mem::take(&mut self.operations().settled);
        self.drop_unused_wake();
        let last = settled.pop();
        for outcome in settled {
            settle.call(Delivery(Some(outcome)))?;
        }
        Ok(Delivery(last))
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
            self.call_wake();
        }
    }
}
