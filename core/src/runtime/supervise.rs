//! Supervises futures and tasks whose results no caller awaits. Reports when they panic or end
//! early.

use std::any::Any;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Poll, Waker};

use tokio::sync::watch;

tokio::task_local! {
    /// The channels between [`supervised`] and the tasks that the client crate spawns inside it.
    /// The tasks report their end through one channel, and are stopped through the other.
    static LINES: Lines;
}

#[derive(Clone)]
struct Lines {
    ended: watch::Sender<bool>,
    stopped: watch::Receiver<bool>,
}

/// The tasks that were spawned while a future ran.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    ended: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
}

impl Tasks {
    /// Waits until one of the tasks has ended, for any reason. Returns immediately if there are
    /// none.
    pub(crate) async fn ended(&mut self) {
        self.ended.wait_for(|ended| *ended).await.ok();
    }

    /// Waits until one of the tasks has ended, or until the supervisor asks the tasks to stop.
    pub(crate) async fn over(&mut self) {
        let mut stopped = self.stop.subscribe();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = self.ended() => {}
        }
    }

    /// Stops the tasks at their current await point, which closes their connections.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// Runs a future, and supervises the [`watched`] tasks that are spawned during that time.
pub(crate) async fn supervised<F: Future>(future: F) -> (F::Output, Tasks) {
    let (ended, reports) = watch::channel(false);
    let (stop, stopped) = watch::channel(false);
    let lines = Lines { ended, stopped };
    (LINES.scope(lines, future).await, Tasks { ended: reports, stop })
}

/// Wraps a task that is about to be spawned. Inside [`supervised`], the resulting [`Tasks`] notice
/// when this task ends, and can stop it.
pub(crate) fn watched(task: impl Future<Output = ()>) -> impl Future<Output = ()> {
    let (end, stopped) = match LINES.try_with(Clone::clone) {
        Ok(Lines { ended, stopped }) => (TaskEnd(Some(ended)), Some(stopped)),
        Err(_) => (TaskEnd(None), None),
    };
    async move {
        let _end = end;
        let requests = stopped.clone();
        let (mut stop, mut task) = (pin!(stop_requested(stopped)), pin!(task));
        let mut waker: Option<Waker> = None;
        poll_fn(|context| {
            // The task is polled often and stopped once. So poll `stop` only if it might be over, or
            // if it does not yet wake this task.
            let is_registered = waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            let is_pending =
                requests.as_ref().is_none_or(|stopped| matches!(stopped.has_changed(), Ok(false)));
            if !is_registered || !is_pending {
                if stop.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                waker = Some(context.waker().clone());
            }
            task.as_mut().poll(context)
        })
        .await;
    }
}

/// Waits until the task is asked to stop.
async fn stop_requested(stopped: Option<watch::Receiver<bool>>) {
    if let Some(mut stopped) = stopped {
        if stopped.wait_for(|stopped| *stopped).await.is_ok() {
            return;
        }
    }
    // There is no supervisor, so no stop request can arrive.
    pending::<()>().await;
}

/// Reports the end of a task when it is dropped together with the task.
struct TaskEnd(Option<watch::Sender<bool>>);

impl Drop for TaskEnd {
    fn drop(&mut self) {
        if let Some(ended) = &self.0 {
            ended.send_replace(true);
        }
    }
}

/// Runs a future and returns its output, or the panic message if it panics (after the panic hook
/// has printed it). If `future` panics, it must not leave shared state inconsistent.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(words(&*panic))),
    })
    .await
}

fn words(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().map(ToString::to_string);
    literal.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::Context;
    use std::time::Duration;

    use super::*;

    /// Spawns a task as the client crate does, so that the runtime never sees the task's panic.
    async fn spawn(task: impl Future<Output = ()> + Send + 'static) -> (tokio::task::AbortHandle, Tasks) {
        let task = async { drop(caught(task).await) };
        supervised(async { tokio::spawn(watched(task)).abort_handle() }).await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_task_that_ends_panics_or_is_aborted_is_noticed() {
        spawn(ready(())).await.1.ended().await;
        spawn(async { panic!("as planned") }).await.1.ended().await;
        let (task, mut tasks) = spawn(pending()).await;
        task.abort();
        tasks.ended().await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_task_that_runs_is_not_taken_for_one_that_ended() {
        let (_, mut tasks) = spawn(pending()).await;
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            () = tasks.ended() => panic!("it runs"),
            () = tokio::task::yield_now() => {}
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn each_hears_of_its_own_tasks() {
        let (_, other) = spawn(pending()).await;
        spawn(ready(())).await.1.ended().await;
        assert!(!*other.ended.borrow());
        // A watched task also runs without a supervisor.
        watched(ready(())).await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn tasks_end_when_they_are_told_and_not_because_nobody_is_left_to_tell_them() {
        let (_, mut tasks) = spawn(pending()).await;
        tasks.clone().stop();
        tasks.over().await;
        tasks.ended().await;
        let (task, tasks) = spawn(pending()).await;
        drop(tasks);
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_stopped_by_the_waker_of_its_last_poll() {
        let (task, tasks) = supervised(poll_fn(|_| Poll::Ready(watched(pending())))).await;
        let mut task = pin!(task);
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::spawn(async move { tasks.stop() });
        // A timeout polls the task once more when it ends, so check that the task ended before.
        let limit = Duration::from_secs(1);
        let began = tokio::time::Instant::now();
        tokio::time::timeout(limit, task).await.expect("the end of the task");
        assert!(began.elapsed() < limit);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_panic_is_an_outcome() {
        assert_eq!(caught(ready(7)).await, Ok(7));
        let later = async {
            tokio::task::yield_now().await;
            panic!("at {}", 7)
        };
        assert_eq!(caught(later).await, Err::<(), _>("at 7".to_owned()));
        assert_eq!(caught(async { panic!("literal") }).await, Err::<(), _>("literal".to_owned()));
    }
}
