//! Stand-in for the `async-select` crate. The original begins with the branch that an address of the heap names; this
//! one always polls them in their order.

/// Waits for the first of several futures.
#[macro_export]
macro_rules! select {
    (biased; $($token:tt)*) => {
        $crate::select_biased! { $($token)* }
    };
    ($($token:tt)*) => {
        $crate::select_biased! { $($token)* }
    };
}

#[doc(hidden)]
pub use async_select_proc_macros::select_biased;
