//! Tests of the parts of core that several threads share, compiled with loom's locks and atomics.
//!
//! The modules are included by their paths and compiled unchanged, except that `runtime::sync` is
//! replaced. The tests run their threads in every interleaving and with every value that a load can
//! return.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[allow(dead_code, unused_imports, reason = "no test uses all of it")]
mod config;
#[allow(dead_code, unused_imports, reason = "no test uses all of it")]
#[path = "../../../core/src/error/mod.rs"]
mod error;
#[allow(dead_code, unused_imports, unfulfilled_lint_expectations, reason = "no test uses all of it")]
#[path = "../../../core/src/lease/mod.rs"]
mod lease;
#[allow(dead_code, unused_imports, reason = "no test uses all of it")]
#[path = "../../../core/src/metrics/mod.rs"]
mod metrics;
#[allow(dead_code, reason = "no test uses all of it")]
#[path = "../../../core/src/internal/operation.rs"]
mod operation;
#[allow(dead_code, unused_imports, reason = "no test uses all of it")]
#[path = "../../../core/src/queue/mod.rs"]
mod queue;
#[allow(dead_code, unfulfilled_lint_expectations, reason = "no test uses all of it")]
mod runtime;
#[allow(dead_code, reason = "no test uses all of it")]
#[path = "../../../core/src/runtime/same_thread.rs"]
mod same_thread;
#[allow(dead_code, reason = "no test uses all of it")]
mod session;
mod sync;
#[allow(dead_code, unused_imports, reason = "no test uses all of it")]
#[path = "../../../core/src/system/mod.rs"]
mod system;

pub mod handoffs;
pub mod holds;
pub mod inboxes;
pub mod lingers;
pub mod operations;
pub mod processes;
pub mod terms;

/// Minimum number of interleavings. In a scene with fewer, the threads do not interact.
const LEAST: usize = 3;

/// Runs a scene in every relevant interleaving of its threads.
pub(crate) fn every_interleaving(scene: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = None;
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        scene();
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{runs} interleavings");
    assert!(runs >= LEAST, "only {runs} interleavings");
}
