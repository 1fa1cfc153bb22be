//! Waits for the events of several leases.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Several futures. Each is awaited once.
pub struct Each<T>(Vec<Option<Pin<Box<dyn Future<Output = T>>>>>);

impl<T> Each<T> {
    pub fn of<F: Future<Output = T> + 'static>(all: impl IntoIterator<Item = F>) -> Self {
        Self(all.into_iter().map(|one| Some(Box::pin(one) as Pin<Box<dyn Future<Output = T>>>)).collect())
    }

    /// Returns the next result with the index of its future.
    pub async fn next(&mut self) -> (usize, T) {
        poll_fn(|cx| {
            for (place, one) in self.0.iter_mut().enumerate() {
                if let Some(future) = one
                    && let Poll::Ready(value) = future.as_mut().poll(cx)
                {
                    *one = None;
                    return Poll::Ready((place, value));
                }
            }
            Poll::Pending
        })
        .await
    }
}
