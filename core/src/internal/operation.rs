//! Defines [`Operation`], a future that starts on the calling thread and continues on the library's
//! thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Wake, Waker};

use crate::error::Result;
use crate::runtime;
use crate::runtime::Background;
use crate::runtime::fork::ForkGuard;
use crate::runtime::same_thread::{self, Woken};
use crate::runtime::sync::{Mutex, MutexGuard};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A started future. Dropping this value cancels the future.
#[must_use = "the future ends when this is dropped"]
#[derive(Debug)]
pub struct Operation(Arc<EagerTask>);

/// The state of an operation's future. Also its waker, until the future becomes a task on the
/// library's thread.
struct EagerTask {
    origin: ForkGuard,
    stage: Mutex<OperationStage>,
}

enum OperationStage {
    /// A thread of the program polls the future. `woken` is `true` if a waker has been called
    /// during this poll.
    Polled { woken: bool },
    /// The future waits to be woken. It is not a task yet.
    Waiting(Task),
    /// The future is a task on the library's thread.
    Running { _task: Background },
    /// The future has completed or was cancelled.
    Over,
}

/// Runs `future` on the library's thread, for bindings without an executor, and passes its result
/// to `deliver`. `deliver` must not block, because the heartbeats run on the same thread.
///
/// The calling thread polls the future first, for three reasons:
/// - The future has started before this function returns.
/// - A result that is available immediately is delivered on the calling thread.
/// - The library's thread is woken only once, by the future's request. A task would have woken it
///   before that, too.
///
/// If a thread wakes the future inside [`same_thread::carry_on_woken`], the future continues on
/// that thread, and its result is delivered there. The driver of a client does so: most operations
/// end when a reply of the server wakes them. Otherwise the future becomes a task when it is woken.
///
/// # Errors
/// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if the operating system refuses a
/// thread.
pub fn begin<F>(future: F, deliver: impl FnOnce(F::Output) + Send + 'static) -> Result<Operation>
where
    F: Future<Output: Send> + Send + 'static,
{
    runtime::ready()?;
    let task: Task = Box::pin(async move { deliver(future.await) });
    let stage = Mutex::new(OperationStage::Polled { woken: false });
    let begun = Arc::new(EagerTask { origin: ForkGuard::new(), stage });
    begun.poll(task);
    Ok(Operation(begun))
}

impl EagerTask {
    fn stage(&self) -> MutexGuard<'_, OperationStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(self: &Arc<Self>, mut task: Task) {
        let waker = Waker::from(Arc::clone(self));
        let ended = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        // Unlock the stage before the future is dropped. The drop can call this waker, which locks
        // the stage.
        let mut over = None;
        let mut stage = self.stage();
        *stage = match *stage {
            OperationStage::Polled { woken: false } if !ended => OperationStage::Waiting(task),
            OperationStage::Polled { woken: true } if !ended => run(task),
            // The future completed, or was cancelled meanwhile.
            _ => {
                over = Some(task);
                OperationStage::Over
            }
        };
        drop(stage);
        drop(over);
    }
}

fn run(task: Task) -> OperationStage {
    // This cannot fail: the library's thread was running when the future started, and it runs until
    // the process exits.
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
            OperationStage::Polled { .. } => OperationStage::Polled { woken: true },
            OperationStage::Waiting(task) if same_thread::note_like_a_task(|| Arc::clone(self) as _) => {
                OperationStage::Waiting(task)
            }
            OperationStage::Waiting(task) => run(task),
            // The future is already a task with its own waker, but this older waker might still be
            // in use.
            later => later,
        };
    }
}

impl Woken for EagerTask {
    fn go_on(self: Arc<Self>) {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, OperationStage::Polled { woken: false }) {
            OperationStage::Waiting(task) => {
                drop(stage);
                self.poll(task);
            }
            // Another thread has already continued the operation, or it was cancelled.
            later => *stage = later,
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.0.origin.is_here() {
            // Unlock the stage before the future is dropped. The drop can call this waker, which
            // locks the stage.
            let stage = std::mem::replace(&mut *self.0.stage(), OperationStage::Over);
            drop(stage);
        }
    }
}

impl Drop for EagerTask {
    fn drop(&mut self) {
        // In a forked child, this future is a copy of the parent's future and must not be dropped.
        if !self.origin.is_here() {
            std::mem::forget(std::mem::replace(&mut *self.stage(), OperationStage::Over));
        }
    }
}

impl std::fmt::Debug for EagerTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self.stage() {
            OperationStage::Polled { .. } => "Polled",
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

    fn delivery<T: Send + 'static>() -> (impl FnOnce(T) + Send + 'static, mpsc::Receiver<(T, ThreadId, bool)>)
    {
        let (send, receive) = mpsc::channel();
        let deliver = move |value| {
            send.send((value, thread::current().id(), runtime::is_current())).ok();
        };
        (deliver, receive)
    }

    /// Sends a message when it is dropped.
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
    fn what_a_thread_wakes_may_be_delivered_by_it() {
        let (deliver, delivered) = delivery();
        let (wake, awake) = oneshot::channel();
        let operation = begin(awake, deliver).unwrap();
        same_thread::carry_on_woken(|| {
            wake.send(2).unwrap();
            assert!(delivered.try_recv().is_err(), "not in the middle of the work");
        });
        assert_eq!(delivered.try_recv(), Ok((Ok(2), thread::current().id(), false)));
        assert_eq!(format!("{operation:?}"), "Operation(Over)");
    }

    #[test]
    fn what_goes_on_and_has_to_wait_again_waits() {
        let (deliver, delivered) = delivery();
        let ((wake, awake), (wake_again, awake_again)) = (oneshot::channel(), oneshot::channel());
        let future = async {
            let first: i32 = awake.await.unwrap();
            awake_again.await.unwrap();
            first
        };
        let operation = begin(future, deliver).unwrap();
        same_thread::carry_on_woken(|| wake.send(1).unwrap());
        assert_eq!(format!("{operation:?}"), "Operation(Waiting)");
        wake_again.send(()).unwrap();
        let (first, _, ours) = delivered.recv_timeout(LONG).unwrap();
        assert_eq!((first, ours), (1, true));
    }

    #[test]
    fn what_is_cancelled_while_its_thread_carries_it_on_is_dropped() {
        let (deliver, delivered) = delivery::<()>();
        let (wake, awake) = oneshot::channel();
        let (send, dropped) = mpsc::channel();
        let dropping = Dropped(send);
        let cancels = Arc::new(Mutex::new(None::<Operation>));
        let cancelled = Arc::clone(&cancels);
        let future = async move {
            let _dropping = dropping;
            awake.await.unwrap();
            drop(cancelled.lock().unwrap().take());
            pending::<()>().await;
        };
        *cancels.lock().unwrap() = Some(begin(future, deliver).unwrap());
        same_thread::carry_on_woken(|| wake.send(()).unwrap());
        assert_eq!(dropped.try_recv(), Ok(()));
        assert!(delivered.recv().is_err());
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
