//! A call that the library's threads make to the JavaScript thread.

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};

/// Tells JavaScript that there is something to take. Weak: it does not keep the process alive, TypeScript decides that.
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
