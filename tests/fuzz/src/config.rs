//! The modules of core that process a hosts string.

#[path = "../../../core/src/config/hosts.rs"]
pub(crate) mod hosts;
#[path = "../../../core/src/config/lock_path.rs"]
pub(crate) mod lock_path;
#[path = "../../../core/src/config/size_limits.rs"]
pub(crate) mod size_limits;
