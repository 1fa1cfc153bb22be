//! Checks a simulation: its leases, the order and speed of grants, and the nodes that remain at the
//! end.

mod asking;
mod attempts;
mod bystander;
mod calm;
mod judge;
mod order;
mod prompt;
mod recorder;
mod reference;
mod requests;
mod rows;
mod scopes;
mod slots;
mod waiters;

pub use self::attempts::Attempt as Asked;
pub use self::judge::{Granted, Mode, Oracle};
pub use self::recorder::Recorder;
pub use self::rows::{Beginning, ReleaseKind};
pub use self::scopes::Scope;
pub use self::slots::Slots;
pub use self::waiters::Joined;
