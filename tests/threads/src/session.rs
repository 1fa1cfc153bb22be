//! The modules of core that leases use.

#[path = "../../../core/src/session/term.rs"]
pub(crate) mod term;
