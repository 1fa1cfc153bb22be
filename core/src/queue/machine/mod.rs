//! The state machine.
//!
//! Each contender is in one of seven stages, or out of the queue. This is where each event leads; an empty cell means
//! that the event changes nothing there. `settle`, after a batch of events, is the last row.
//!
//! | Event | Idle | Looking | Creating | Unknown | Verifying | Queued | Held |
//! |---|---|---|---|---|---|---|---|
//! | `Leave` | out | out | ¹ | ¹ | ¹ | out ✗ | |
//! | `Release` | | | | | | | out ✗ ² |
//! | `Downgrade` | ³ | ³ | ³ | ³ | ³ | Idle ✗ | |
//! | `Created` done | | | Queued ⁴ | | | | |
//! | `Created` no node | | | Idle ⁵ | | | | |
//! | `Created` lost | | | Unknown | | | | |
//! | `Created` refused | | | out | | | | |
//! | `ParentsMade` refused | out | | | | | | |
//! | `Listed`, node shown | | | | Verifying | | ⁶ | |
//! | `Listed`, node not shown | | Idle, out ⁷ | | Idle ⁸ | | Idle ⁹ | out ⁹ |
//! | `Verified` ours | | | | | Queued ⁴ | | |
//! | `Verified` not ours | | | | | Idle | | |
//! | `Verified` no node, lost | | | | | Unknown | | |
//! | `Verified` refused | | | | | out ✗ | | |
//! | `Gone`, `Missing`: own node | | | | | | Idle | out ¹⁰ |
//! | `Listed`, `Watched` refused | out | out | ¹ | ¹ | ¹ | out ✗ | |
//! | `Disconnected` | | | | | | ⁶ | |
//! | `SessionLost` | Idle | Looking | Idle ¹ | Idle ¹ | Idle ¹ | Idle | out ¹⁰ |
//! | settle | Creating ¹¹ | | | | | Held ¹² | |
//!
//! ✗ Its node is doomed: deleted, again and again, until it or the session is gone (rules 9 and 13).
//!
//! 1. Stays, and is *leaving*: when the fate of its node is known it goes out instead, and the node is doomed (rule 9).
//! 2. Stays, and is leaving, while a reader is on its way into its place (rule 4).
//! 3. Stays, and remembers whose place it takes.
//! 4. Or out ✗ if it is leaving, or if the sequence number is close to where the counter wraps (rule 2); Idle ✗ if the
//!    writer whose place it takes no longer holds (rule 4).
//! 5. And the parents are made; or out, if it is leaving or this has happened too often (rule 3).
//! 6. Stays; its place is confirmed by a listing on this connection, or no longer is (rule 10).
//! 7. Idle if the lock is free, else out: it only tries (rule 14). So does a Queued one that a listing shows behind
//!    another: out ✗.
//! 8. Only after a sync, and if the listing was sent later than the create; else it stays (rule 8). Out if leaving.
//! 9. Only if the listing was sent later than the create (rule 3).
//! 10. With it a reader that is Queued in its place becomes Idle ✗ if the writer's node was deleted (rule 4).
//! 11. When a session has begun and no parents are being made.
//! 12. When it is its turn and the term runs (rules 4, 6, 7, 16 and 17).
//!
//! Every file here adds methods to [`Queue`]; `state` has its fields and hands each event to the method that takes it.

mod contenders;
mod creates;
mod deletes;
mod downgrade;
mod grants;
mod join;
mod joins;
mod listing;
mod permits;
mod position;
mod session;
mod state;
mod tries;
mod watches;

pub use position::NEAR;
pub use state::Queue;
