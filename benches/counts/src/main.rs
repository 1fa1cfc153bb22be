//! Repeats an operation and prints its allocations: `zklock-bench-counts WORK TIMES [HOSTS]`.
//! `benches/counts.py` runs it, also under valgrind.

mod simulated_queue;

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::{Builder, Runtime};
use zklock::{Client, Mutex, Owner, Result, Timeout};

use self::simulated_queue::SimulatedQueue;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator with counters of allocations and bytes.
struct Counting;

// Safety: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // Safety: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Safety: the caller keeps the allocator's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of contending tasks.
const CONTENDERS: u64 = 16;

#[expect(clippy::print_stdout, reason = "a report")]
fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, work, times, rest @ ..] = &arguments[..] else { panic!("WORK TIMES [HOSTS]") };
    let times: u64 = times.parse().expect("a number");
    let hosts = rest.first().map_or("", String::as_str);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    // Do one-time work before counting starts.
    let mut done = Work::new(&runtime, work, hosts).expect("a server");
    done.carry_out(&runtime, times / 10 + 1).expect("a server");
    let before = [&ALLOCATIONS, &BYTES].map(|counter| counter.load(Ordering::Relaxed));
    done.carry_out(&runtime, times).expect("a server");
    let after = [&ALLOCATIONS, &BYTES].map(|counter| counter.load(Ordering::Relaxed));
    println!("{}", serde_json::json!({ "allocations": after[0] - before[0], "bytes": after[1] - before[1] }));
}

enum Work {
    /// A contender joins and leaves the simulated queue.
    Queue(Box<SimulatedQueue>),
    Pair(Mutex),
    Contend(Mutex),
    Try(Mutex),
    Reenter(Mutex, Owner),
}

impl Work {
    fn new(runtime: &Runtime, name: &str, hosts: &str) -> Result<Self> {
        match name {
            "queue" => return Ok(Work::Queue(Box::new(SimulatedQueue::new(0)))),
            "queue-100" => return Ok(Work::Queue(Box::new(SimulatedQueue::new(100)))),
            _ => {}
        }
        runtime.block_on(async {
            let mutex = Mutex::new(&Client::connect(hosts).await?, "/counts")?;
            Ok(match name {
                "pair" => Work::Pair(mutex),
                "contend" => Work::Contend(mutex),
                "try" => {
                    let other = Mutex::new(&Client::connect(hosts).await?, "/counts")?;
                    std::mem::forget(other.acquire().await?);
                    Work::Try(mutex)
                }
                "reenter" => {
                    let owner = Owner::new();
                    std::mem::forget(mutex.acquire_as(&owner, Timeout::Forever).await?);
                    Work::Reenter(mutex, owner)
                }
                other => panic!("no such work: {other}"),
            })
        })
    }

    fn carry_out(&mut self, runtime: &Runtime, times: u64) -> Result<()> {
        if let Work::Queue(queue) = self {
            for _ in 0..times {
                queue.join_and_release();
            }
            return Ok(());
        }
        runtime.block_on(async {
            if let Work::Contend(mutex) = self {
                let tasks: Vec<_> = (0..CONTENDERS)
                    .map(|_| runtime.spawn(pairs(mutex.clone(), times.div_ceil(CONTENDERS))))
                    .collect();
                for task in tasks {
                    task.await.expect("no panic")?;
                }
                return Ok(());
            }
            for _ in 0..times {
                match self {
                    Work::Pair(mutex) => mutex.acquire().await?.release().await?,
                    Work::Try(mutex) => assert!(mutex.try_acquire().await?.is_none(), "the lock is taken"),
                    Work::Reenter(mutex, owner) => {
                        mutex.acquire_as(owner, Timeout::Forever).await?.release().await?;
                    }
                    Work::Queue(_) | Work::Contend(_) => {}
                }
            }
            Ok(())
        })
    }
}

async fn pairs(mutex: Mutex, times: u64) -> Result<()> {
    for _ in 0..times {
        mutex.acquire().await?.release().await?;
    }
    Ok(())
}
