//! Input from others, as a fuzzer makes it up: frames of servers, names and data of nodes, and hosts strings.
//!
//! Each target is a function that takes bytes and panics if a promise is broken. The modules under test are included by
//! their paths, so that the targets reach what no program can; they are compiled here as they stand in core.

pub mod allocations;
pub mod frames;
pub mod hosts;
pub mod names;
pub mod node_data;

#[allow(dead_code, unused_imports, reason = "no target uses all of it")]
#[path = "../../../core/src/queue/mod.rs"]
pub mod queue;

#[allow(dead_code, unused_imports, reason = "no target uses all of it")]
#[path = "../../../core/src/error/mod.rs"]
mod error;

#[allow(dead_code, unused_imports, reason = "no target uses all of it")]
mod config;
mod input;

/// Checks what a fuzzer makes of some bytes.
pub type Target = fn(&[u8]);

/// Every target, by the name of its program and of its corpus.
pub const TARGETS: [(&str, Target); 4] = [
    ("frames", frames::check),
    ("names", names::check),
    ("node_data", node_data::check),
    ("hosts", hosts::check),
];
