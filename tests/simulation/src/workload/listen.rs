//! Waits for whatever leases have to say.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Some futures, each of which is waited for once.
pub struct Each<T>(Vec<Option<Pin<Box<dyn Future<Output = T>>>>>);

impl<T> Each<T> {
    pub fn of<F: Future<Output = T> + 'static>(all: impl IntoIterator<Item = F>) -> Self {
        Self(all.into_iter().map(|one| Some(Box::pin(one) as Pin<Box<dyn Future<Output = T>>>)).collect())
    }

    /// The next one that is ready, and its place.
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
