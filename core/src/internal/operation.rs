//! Futures that are begun by the thread that asks for their outcome, and go on on the library's own.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Wake, Waker};

use crate::error::Result;
use crate::runtime;
use crate::runtime::Background;
use crate::runtime::fork::ForkGuard;
use crate::runtime::sync::{Mutex, MutexGuard};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that was begun; dropping this cancels it.
#[must_use = "the future ends when this is dropped"]
#[derive(Debug)]
pub struct Operation(Arc<EagerTask>);

/// How far a future has come. It is the waker of its first poll, too.
struct EagerTask {
    origin: ForkGuard,
    stage: Mutex<OperationStage>,
}

enum OperationStage {
    /// It is being polled for the first time, and was perhaps woken meanwhile.
    Beginning { woken: bool },
    /// It waits to be woken, and is no task yet.
    Waiting(Task),
    /// It is a task on the library's thread.
    Running { _task: Background },
    /// It has ended, or was cancelled.
    Over,
}

/// Runs `future` on the library's own thread, for bindings that have no executor, and hands its result to
/// `deliver` there. `deliver` must not block: it shares the thread with the heartbeats.
///
/// The future is polled here first. So it begins before this returns; what is ready at once is delivered here; and what
/// it sends is all that wakes the library's thread. A task of its own would wake it a second time: it is made when the
/// future is woken, which that thread does.
///
/// # Errors
/// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if the operating system refuses a thread.
pub fn begin<F>(future: F, deliver: impl FnOnce(F::Output) + Send + 'static) -> Result<Operation>
where
    F: Future<Output: Send> + Send + 'static,
{
    runtime::ready()?;
    let mut task: Task = Box::pin(async move { deliver(future.await) });
    let stage = Mutex::new(OperationStage::Beginning { woken: false });
    let begun = Arc::new(EagerTask { origin: ForkGuard::new(), stage });
    let waker = Waker::from(Arc::clone(&begun));
    if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        *begun.stage() = OperationStage::Over;
    } else {
        begun.wait(task);
    }
    Ok(Operation(begun))
}

impl EagerTask {
    fn stage(&self) -> MutexGuard<'_, OperationStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was polled until it is woken.
    fn wait(&self, task: Task) {
        let mut stage = self.stage();
        *stage = match *stage {
            OperationStage::Beginning { woken: true } => run(task),
            _ => OperationStage::Waiting(task),
        };
    }
}

fn run(task: Task) -> OperationStage {
    // The thread was there when the future began, and stays until the process ends.
    runtime::run(task, drop).map_or(OperationStage::Over, |task| OperationStage::Running { _task: task })
}

impl Wake for EagerTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.origin.is_here() {
            return;
        }
        let mut stage = self.stage();
        *stage = match std::mem::replace(&mut *stage, OperationStage::Over) {
            OperationStage::Beginning { .. } => OperationStage::Beginning { woken: true },
            OperationStage::Waiting(task) => run(task),
            // A task has a waker of its own; this one may still be called.
            later => later,
        };
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.0.origin.is_here() {
            // What is dropped runs code of core, which may wake this: not under the lock.
            let stage = std::mem::replace(&mut *self.0.stage(), OperationStage::Over);
            drop(stage);
        }
    }
}

impl Drop for EagerTask {
    fn drop(&mut self) {
        // In a forked child the future exists in the parent only.
        if !self.origin.is_here() {
            std::mem::forget(std::mem::replace(&mut *self.stage(), OperationStage::Over));
        }
    }
}

impl std::fmt::Debug for EagerTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self.stage() {
            OperationStage::Beginning { .. } => "Beginning",
            OperationStage::Waiting(_) => "Waiting",
            OperationStage::Running { .. } => "Running",
            OperationStage::Over => "Over",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::mpsc;
    use std::task::Poll;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Delivers what comes, with the thread that delivers it.
    fn delivery<T: Send + 'static>() -> (impl FnOnce(T) + Send + 'static, mpsc::Receiver<(T, ThreadId, bool)>)
    {
        let (send, receive) = mpsc::channel();
        let deliver = move |value| {
            send.send((value, thread::current().id(), runtime::is_current())).ok();
        };
        (deliver, receive)
    }

    /// Says so when it is dropped.
    struct Dropped(mpsc::Sender<()>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(()).ok();
        }
    }

    #[test]
    fn what_is_ready_at_once_is_delivered_by_the_caller() {
        let (deliver, delivered) = delivery();
        let operation = begin(async { 1 }, deliver).unwrap();
        assert_eq!(delivered.try_recv(), Ok((1, thread::current().id(), false)));
        assert_eq!(format!("{operation:?}"), "Operation(Over)");
    }

    #[test]
    fn what_is_woken_later_is_delivered_by_the_librarys_thread() {
        let (deliver, delivered) = delivery();
        let (wake, awake) = oneshot::channel();
        let operation = begin(awake, deliver).unwrap();
        assert_eq!(format!("{operation:?}"), "Operation(Waiting)", "it is no task yet");
        wake.send(2).unwrap();
        let (value, _, ours) = delivered.recv_timeout(LONG).unwrap();
        assert_eq!((value, ours), (Ok(2), true));
    }

    #[test]
    fn several_waits_in_one_future_all_end() {
        let (deliver, delivered) = delivery();
        let (wakes, waits): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel::<()>()).unzip();
        let future = async {
            for wait in waits {
                wait.await.unwrap();
            }
        };
        let _operation = begin(future, deliver).unwrap();
        for wake in wakes {
            assert!(delivered.try_recv().is_err());
            wake.send(()).unwrap();
        }
        delivered.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn what_is_woken_while_it_begins_goes_on() {
        let (deliver, delivered) = delivery();
        let mut polls = 0;
        let future = poll_fn(move |context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls < 3 { Poll::Pending } else { Poll::Ready(polls) }
        });
        let _operation = begin(future, deliver).unwrap();
        let (polls, _, ours) = delivered.recv_timeout(LONG).unwrap();
        assert_eq!((polls, ours), (3, true));
    }

    #[test]
    fn what_is_cancelled_before_it_is_woken_is_dropped_at_once() {
        let (deliver, delivered) = delivery();
        let (wake, awake) = oneshot::channel();
        let (send, dropped) = mpsc::channel();
        let dropping = Dropped(send);
        let future = async move {
            let _dropping = dropping;
            awake.await
        };
        drop(begin(future, deliver).unwrap());
        assert_eq!(dropped.try_recv(), Ok(()));
        // Nobody waits for it any more, and to call its waker is harmless.
        assert_eq!(wake.send(3), Err(3));
        assert!(delivered.recv().is_err());
    }

    #[test]
    fn what_is_cancelled_as_a_task_is_dropped_by_the_librarys_thread() {
        let (deliver, delivered) = delivery();
        let (wake, awake) = oneshot::channel::<()>();
        let (send, dropped) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let dropping = Dropped(send);
        let future = async move {
            let _dropping = dropping;
            awake.await.unwrap();
            go_on.send(()).unwrap();
            pending::<()>().await;
        };
        let operation = begin(future, deliver).unwrap();
        wake.send(()).unwrap();
        goes_on.recv_timeout(LONG).unwrap();
        assert_eq!(format!("{operation:?}"), "Operation(Running)");
        drop(operation);
        dropped.recv_timeout(LONG).unwrap();
        assert!(delivered.recv().is_err());
    }

    #[test]
    fn a_waker_may_be_called_when_all_is_over() {
        let (deliver, delivered) = delivery();
        let (send, wakers) = mpsc::channel();
        let mut polls = 0;
        let future = poll_fn(move |context| {
            polls += 1;
            send.send(context.waker().clone()).unwrap();
            if polls == 1 { Poll::Pending } else { Poll::Ready(()) }
        });
        let _operation = begin(future, deliver).unwrap();
        let waker = wakers.recv().unwrap();
        waker.wake_by_ref();
        delivered.recv_timeout(LONG).unwrap();
        waker.wake();
        assert!(delivered.recv().is_err(), "delivered once");
    }
}
