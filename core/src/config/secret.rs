//! A wrapper that hides a secret and overwrites it in memory after use.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroize;

/// A secret that is never printed and that is overwritten in memory when it is dropped.
///
/// Clones are overwritten too when they are dropped. Other copies, which the client crate or the
/// program makes, are not overwritten.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Secret<T: Zeroize>(T);

impl<T: Zeroize> From<T> for Secret<T> {
    fn from(secret: T) -> Self {
        Self(secret)
    }
}

impl<T: Zeroize> Deref for Secret<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Clone)]
    struct Counted(Arc<AtomicUsize>);

    impl Zeroize for Counted {
        fn zeroize(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_copy_is_overwritten_when_it_goes() {
        let count = Arc::<AtomicUsize>::default();
        let secret = Secret::from(Counted(Arc::clone(&count)));
        drop(secret.clone());
        assert_eq!(count.load(Ordering::Relaxed), 1);
        drop(secret);
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn it_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::from("password".to_owned())), "…");
    }
}
