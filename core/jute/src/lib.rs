//! Jute, the encoding of ZooKeeper's messages: numbers are big-endian, and texts, buffers and lists
//! begin with their length.
//!
//! The frame validator, the embedded server, the simulation and the tests use it.

mod reader;
mod writer;

pub use reader::{Error, Reader};
pub use writer::Writer;
