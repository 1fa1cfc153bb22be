//! Carries the outcomes of operations from the library's thread to the JavaScript thread.
//!
//! There is one bridge per JavaScript environment (the main thread, each worker). An outcome waits here, and
//! not in the queue of the thread-safe function, because that queue leaks what is in it when the environment
//! ends, and a leaked lease would hold its lock for as long as the process lives.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use napi::bindgen_prelude::{Either6, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;
use zklock::{Background, ClientState};

use crate::client::{NativeClient, close_all};
use crate::contender::NativeContender;
use crate::error::{Result, thrown};
use crate::lease::NativeLease;

/// How long the end of an environment waits for its clients to close.
const CLOSING: Duration = Duration::from_secs(1);

/// Weak, so that it does not keep the process alive: TypeScript decides that.
type Wake = ThreadsafeFunction<(), (), (), Status, false, true>;

/// What an operation that succeeded hands to JavaScript.
pub enum Value {
    Nothing,
    Client(zklock::Client),
    Lease(zklock::Lease),
    Leases(Vec<zklock::Lease>),
    Contenders(Vec<zklock::Contender>),
    Flag(bool),
    State(ClientState),
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Self::Nothing
    }
}

impl From<zklock::Client> for Value {
    fn from(client: zklock::Client) -> Self {
        Self::Client(client)
    }
}

impl From<zklock::Lease> for Value {
    fn from(lease: zklock::Lease) -> Self {
        Self::Lease(lease)
    }
}

impl From<Vec<zklock::Lease>> for Value {
    fn from(leases: Vec<zklock::Lease>) -> Self {
        Self::Leases(leases)
    }
}

impl From<Vec<zklock::Contender>> for Value {
    fn from(contenders: Vec<zklock::Contender>) -> Self {
        Self::Contenders(contenders)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Option<ClientState>> for Value {
    fn from(state: Option<ClientState>) -> Self {
        state.map_or(Self::Nothing, Self::State)
    }
}

type Outcome = zklock::Result<Value>;

/// An operation that has ended: with a value, with nothing, or with an error's code and message.
#[napi(object, object_from_js = false)]
#[expect(clippy::type_complexity, reason = "the declarations that napi writes know no aliases")]
pub struct Settled {
    pub id: i64,
    pub value: Option<
        Either6<NativeClient, NativeLease, Vec<NativeLease>, Vec<NativeContender>, bool, &'static str>,
    >,
    pub code: Option<&'static str>,
    pub message: Option<String>,
}

impl Settled {
    fn new(id: i64, outcome: Outcome, clients: &mut Vec<Weak<zklock::Client>>) -> Self {
        let (value, error) = match outcome {
            Ok(Value::Nothing) => (None, None),
            Ok(Value::Client(client)) => {
                let client = Arc::new(client);
                clients.retain(|client| client.strong_count() > 0);
                clients.push(Arc::downgrade(&client));
                (Some(Either6::A(NativeClient::new(client))), None)
            }
            Ok(Value::Lease(lease)) => (Some(Either6::B(NativeLease::new(lease))), None),
            Ok(Value::Leases(leases)) => {
                (Some(Either6::C(leases.into_iter().map(NativeLease::new).collect())), None)
            }
            Ok(Value::Contenders(contenders)) => {
                (Some(Either6::D(contenders.into_iter().map(Into::into).collect())), None)
            }
            Ok(Value::Flag(flag)) => (Some(Either6::E(flag)), None),
            Ok(Value::State(state)) => (Some(Either6::F(state.as_str())), None),
            Err(error) => (None, Some(error)),
        };
        let code = error.as_ref().map(zklock::Error::code);
        Self { id, value, code, message: error.map(|error| error.to_string()) }
    }
}

/// Starts operations, and keeps their outcomes until JavaScript takes them.
#[napi]
pub struct Bridge {
    shared: Arc<Shared>,
}

struct Shared {
    wake: Wake,
    operations: Mutex<Operations>,
    /// The clients of this environment, to be closed with it.
    clients: Mutex<Vec<Weak<zklock::Client>>>,
}

#[derive(Default)]
struct Operations {
    last_id: i64,
    /// Started, not ended, not cancelled. The handle is absent while the operation is being started.
    running: HashMap<i64, Option<Background>>,
    /// Ended, not yet taken.
    settled: Vec<(i64, Outcome)>,
}

#[napi]
impl Bridge {
    /// A bridge that calls `wake` when there are outcomes to take.
    ///
    /// When the environment ends, its clients are closed: its handles are dropped then, but that only sends the
    /// closing on its way, and if the process ends with a worker, nothing would wait for it to arrive.
    ///
    /// # Errors
    /// If Node refuses.
    #[napi(constructor)]
    pub fn new(env: Env, wake: Function<'_, (), ()>) -> napi::Result<Self> {
        let wake = wake.build_threadsafe_function().callee_handled::<false>().weak::<true>().build()?;
        let shared = Arc::new(Shared { wake, operations: Mutex::default(), clients: Mutex::default() });
        env.add_env_cleanup_hook(Arc::clone(&shared), |shared| shared.end())?;
        Ok(Self { shared })
    }

    /// The operations that ended since the last call.
    #[napi]
    pub fn take(&self) -> Vec<Settled> {
        let settled = std::mem::take(&mut self.shared.operations().settled);
        let mut clients = self.shared.clients();
        settled.into_iter().map(|(id, outcome)| Settled::new(id, outcome, &mut clients)).collect()
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
    /// Starts `future` and returns the id under which its outcome will be taken.
    ///
    /// It is polled here first, so that an operation begins in the order in which JavaScript asked: an owner who
    /// acquires and then releases is seen to hold still when the acquire begins.
    pub fn start<T>(&self, future: impl Future<Output = zklock::Result<T>> + Send + 'static) -> Result<i64>
    where
        T: Into<Value> + Send + 'static,
    {
        let id = {
            let mut operations = self.shared.operations();
            operations.last_id += 1;
            let id = operations.last_id;
            operations.running.insert(id, None);
            id
        };
        let mut future = Box::pin(future);
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            self.shared.settle(id, result.map(Into::into));
            return Ok(id);
        }
        let shared = Arc::clone(&self.shared);
        match zklock::run(future, move |result| shared.settle(id, result.map(Into::into))) {
            Ok(background) => {
                if let Some(operation) = self.shared.operations().running.get_mut(&id) {
                    *operation = Some(background);
                }
                Ok(id)
            }
            Err(error) => {
                self.shared.operations().running.remove(&id);
                Err(thrown(&error))
            }
        }
    }
}

impl Shared {
    fn operations(&self) -> MutexGuard<'_, Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Weak<zklock::Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends with the environment. Outcomes from here on find that their operation is gone, and are dropped.
    fn end(&self) {
        let operations = std::mem::take(&mut *self.operations());
        drop(operations);
        let clients: Vec<_> = self.clients().drain(..).filter_map(|client| client.upgrade()).collect();
        close_all(&clients, CLOSING);
    }

    /// Runs on the library's thread.
    fn settle(&self, id: i64, outcome: Outcome) {
        let mut operations = self.operations();
        let operation = operations.running.remove(&id);
        let wake = if operation.is_some() {
            operations.settled.push((id, outcome));
            // One call wakes for all that is there when JavaScript gets to it.
            operations.settled.len() == 1
        } else {
            // Cancelled: dropping the outcome releases what it may have acquired.
            drop(operations);
            drop(outcome);
            return;
        };
        drop(operations);
        drop(operation);
        if wake {
            self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}
