//! Fuzz targets for input from outside: server frames, names and data of nodes, and hosts strings.
//!
//! Each target is a function that takes bytes and panics if a promise is broken. The modules under
//! test are included by their paths and compiled unchanged, so that the targets reach private code.

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
#[path = "../../../core/src/system/mod.rs"]
mod system;

#[allow(dead_code, unused_imports, reason = "no target uses all of it")]
mod config;
mod input;

/// A function that checks the code under test with these bytes.
pub type Target = fn(&[u8]);

/// All targets, with the name of their program and corpus.
pub const TARGETS: [(&str, Target); 4] = [
    ("frames", frames::check),
    ("names", names::check),
    ("node_data", node_data::check),
    ("hosts", hosts::check),
];
