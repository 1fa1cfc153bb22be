//! Stand-in for the `async-select` crate. The original chooses its first branch by a heap address.
//! This one always polls the branches in order.

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
