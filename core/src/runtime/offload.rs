//! Parses data from other programs on separate threads. Such data can be large, and must not delay
//! the heartbeats on the library's own thread.

use std::sync::mpsc;

use tokio::sync::{Semaphore, oneshot};

use crate::runtime::fork::PerProcess;

/// Data up to this size is processed on the calling thread, because that is faster than starting a
/// thread.
const INLINE_LIMIT: usize = 8 * 1024;

/// Maximum number of threads per process that parse such data at the same time.
const THREADS: usize = 2;

static THREAD_PERMITS: PerProcess<Semaphore> = PerProcess::new();

/// Does `work` on `size` bytes, and returns `None` if it panicked. Large data gets a dedicated
/// thread, or is processed on the calling thread if the system refuses a thread. Dropping the
/// future does not stop `work`.
pub(crate) async fn offload_work<T, F>(size: usize, work: F) -> Option<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // A simulation uses only one thread, because the seed does not determine the timing of a second
    // thread.
    if size <= INLINE_LIMIT || cfg!(feature = "_simulation") {
        return Some(work());
    }
    // The semaphore is never closed, so `acquire` always succeeds.
    let permit = THREAD_PERMITS.get_or_init(|| Semaphore::new(THREADS)).acquire().await;
    let (give, take) = mpsc::channel::<F>();
    let (reply, done) = oneshot::channel();
    let run = move || {
        if let Ok(work) = take.recv() {
            reply.send(work()).ok();
        }
        drop(permit);
    };
    match std::thread::Builder::new().name("zklock-parse".to_owned()).spawn(run) {
        Ok(_) => give.send(work).ok(),
        Err(_) => return Some(work()),
    };
    done.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> Option<String> {
        std::thread::current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn little_is_done_here_and_much_elsewhere() {
        assert_eq!(offload_work(INLINE_LIMIT, thread).await, Some(thread()));
        assert_eq!(offload_work(INLINE_LIMIT + 1, thread).await.flatten().as_deref(), Some("zklock-parse"));
    }

    #[tokio::test]
    async fn no_more_than_two_threads_at_once_and_all_get_their_turn() {
        let running = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let works = (0..8).map(|_| {
            let running = std::sync::Arc::clone(&running);
            tokio::spawn(offload_work(INLINE_LIMIT + 1, move || {
                let now = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                std::thread::sleep(std::time::Duration::from_millis(5));
                running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                now
            }))
        });
        let works: Vec<_> = works.collect();
        for work in works {
            assert!(work.await.unwrap().is_some_and(|running| running <= THREADS));
        }
    }
}
