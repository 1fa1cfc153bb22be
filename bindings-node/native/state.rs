//! Exports the state changes of a client.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};

use napi_derive::napi;
use zklock::{ClientState, States};

use crate::bridge::Bridge;
use crate::error::Result;

/// The stream of a client's state changes. It does not keep the client open.
#[napi]
pub struct NativeStates {
    states: Arc<Mutex<States>>,
}

impl NativeStates {
    pub(crate) fn new(states: States) -> Self {
        Self { states: Arc::new(Mutex::new(states)) }
    }
}

#[napi]
impl NativeStates {
    /// Starts an operation that waits for the next change. It yields the new state, or nothing
    /// after the last change.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn next(&self, bridge: &Bridge) -> Result<i64> {
        let states = Arc::clone(&self.states);
        bridge.start(poll_fn(move |context| {
            states
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .poll_next(context)
                .map(|state| Ok(state.map(ClientState::as_str)))
        }))
    }
}
