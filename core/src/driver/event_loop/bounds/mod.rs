//! Tests that the cost of an event does not grow with the number of locks, waiters and holds. The
//! cost is measured in instructions, allocations and memory.

#[cfg(test)]
mod allocations;
#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod comparison;
#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod event_costs;
#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod memory_use;
