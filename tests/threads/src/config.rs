//! The modules of core that leases use.

#[path = "../../../core/src/config/lock_path.rs"]
pub(crate) mod lock_path;
#[path = "../../../core/src/config/size_limits.rs"]
pub(crate) mod size_limits;
#[path = "../../../core/src/config/timeout.rs"]
pub(crate) mod timeout;
