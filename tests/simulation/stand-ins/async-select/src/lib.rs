//! Stand-in for the `async-select` crate. The original polls the branches in an order that depends
//! on a heap address. This one always polls them in the order of the source.

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
