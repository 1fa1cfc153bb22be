//! A thread that runs tasks. It replaces tokio's runtime on the library's thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Wake, Waker};

use loom::sync::{Condvar, Mutex};
use loom::thread::JoinHandle;

use crate::error::Result;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

std::thread_local! {
    /// The queue of tasks in the current interleaving. A thread-local value is enough, because all
    /// loom threads run on one system thread.
    static CURRENT: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

/// The tasks that are due on the thread.
struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    due: VecDeque<Arc<Running>>,
    stopped: bool,
    /// Number of started tasks.
    begun: usize,
}

/// A task, or `None` after it has ended.
struct Running {
    task: Mutex<Option<Task>>,
    queue: Arc<Queue>,
}

impl Wake for Running {
    fn wake(self: Arc<Self>) {
        let queue = Arc::clone(&self.queue);
        queue.state.lock().unwrap_or_else(PoisonError::into_inner).due.push_back(self);
        queue.news.notify_one();
    }
}

/// A handle of a task on the thread. Dropping the handle cancels the task.
pub(crate) struct Background(Arc<Running>, Arc<loom::sync::atomic::AtomicBool>);

impl std::fmt::Debug for Background {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Background")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.1.store(true, loom::sync::atomic::Ordering::SeqCst);
        Arc::clone(&self.0).wake();
    }
}

/// Runs the thread until it is stopped.
pub(crate) struct LibraryThread {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

fn current() -> Arc<Queue> {
    CURRENT.with_borrow(Option::clone).expect("a library thread")
}

impl LibraryThread {
    pub(crate) fn start() -> Self {
        let queue = Arc::new(Queue { state: Mutex::default(), news: Condvar::new() });
        CURRENT.set(Some(Arc::clone(&queue)));
        let ours = Arc::clone(&queue);
        Self { queue, thread: loom::thread::spawn(move || ours.run()) }
    }

    /// Stops the thread once it has no runnable task. Returns the number of tasks that were
    /// started.
    pub(crate) fn stop(self) -> usize {
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.queue.news.notify_one();
        self.thread.join().expect("the library's thread does not panic");
        CURRENT.set(None);
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).begun
    }
}

impl Queue {
    fn run(&self) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let next = loop {
                match state.due.pop_front() {
                    Some(next) => break next,
                    None if state.stopped => return,
                    None => state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            next.proceed();
        }
    }
}

impl Running {
    fn proceed(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_mut().is_some_and(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()) {
            *task = None;
        }
    }
}

#[allow(clippy::unnecessary_wraps, reason = "as core's, which starts a thread")]
pub(crate) fn ready() -> Result<()> {
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "as core's, which starts a thread")]
pub(crate) fn run<F>(future: F, deliver: impl FnOnce(F::Output) + Send + 'static) -> Result<Background>
where
    F: Future<Output: Send> + Send + 'static,
{
    let queue = current();
    let cancelled = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let told = Arc::clone(&cancelled);
    let mut future = Box::pin(future);
    let mut deliver = Some(deliver);
    let task: Task = Box::pin(std::future::poll_fn(move |context| {
        if told.load(loom::sync::atomic::Ordering::SeqCst) {
            return std::task::Poll::Ready(());
        }
        future.as_mut().poll(context).map(|output| deliver.take().expect("it ends once")(output))
    }));
    let running = Arc::new(Running { task: Mutex::new(Some(task)), queue: Arc::clone(&queue) });
    queue.state.lock().unwrap_or_else(PoisonError::into_inner).begun += 1;
    Arc::clone(&running).wake();
    Ok(Background(running, cancelled))
}

/// Is never called, because no test waits for time to pass.
#[allow(clippy::unused_async, reason = "as core's")]
pub(crate) async fn sleep(_: std::time::Duration) -> Result<()> {
    unreachable!("time does not pass here")
}
