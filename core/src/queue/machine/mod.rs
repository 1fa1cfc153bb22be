//! The state machine.
//!
//! Each contender is in one of seven stages, or out of the queue. It joins as Idle, or as Looking if it only tries.
//! This is where each event leads from there; an empty cell means that the event changes nothing. The last row is what
//! `settle` does after a batch of events.
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
//! | `Listed`, `Watched` refused | out | out | ¹ | ¹ | ¹ | out ✗ | |
//! | `Verified` ours | | | | | Queued ⁴ | | |
//! | `Verified` not ours | | | | | Idle ¹⁰ | | |
//! | `Verified` no node, lost | | | | | Unknown | | |
//! | `Verified` refused | | | | | out ✗ | | |
//! | `Gone`, `Missing`: own node | | | | | | Idle | out ¹¹ |
//! | `Disconnected` | | | | | | ⁶ | |
//! | `SessionLost` | Idle ¹⁴ | Looking | Idle ¹⁰ ¹⁴ | Idle ¹⁰ ¹⁴ | Idle ¹⁰ ¹⁴ | Idle ¹⁴ | out |
//! | settle | Creating ¹² | | | | | Held ¹³ | out ✗ ² |
//!
//! ✗ Its node is doomed: deleted, again and again, until it or the session is gone (rules 9 and 13).
//!
//! 1. Stays, and is *leaving*: once the fate of its node is known, it is out and the node is doomed (rule 9).
//! 2. Not while a reader is on its way into its place: till then it stays, and is leaving (rule 4).
//! 3. Stays, and remembers whose place it takes.
//! 4. Or out ✗ if it is leaving, or if the sequence number is close to where the counter wraps (rule 2). Or Idle ✗ if
//!    the writer whose place it takes no longer holds (rule 4).
//! 5. And the parents are made. Or out, if it is leaving, or if this has happened too often (rule 3).
//! 6. Stays. Its place is certain once a listing on this connection has shown it (rule 10). If it only tries, and
//!    stands behind another, it is out ✗ (rule 14). If the listing shows an earlier node of it, it is Verifying (rule 8).
//! 7. If the listing was sent later than the try began: Idle if the lock is free, else out (rule 14).
//! 8. If the listing was sent after a sync and later than the create; else it stays (rule 8). Or out, if it is leaving.
//! 9. If the listing was sent later than the create (rule 3).
//! 10. Or out, if it is leaving.
//! 11. And readers that are Queued in its place are Idle ✗ (rule 4).
//! 12. If there is a session and no parents are being made. Or Looking, if it only tries and has lost the place of the
//!     writer that it was to take; or out, if another of ours is in its way (rule 21).
//! 13. If it is its turn and enough of the term is left (rules 4, 6, 7, 16 and 17).
//! 14. Or Looking, if it only tries (rule 21).
//!
//! A listing that shows a counter that has wrapped counts as refused too (rule 2).
//!
//! Every file here adds methods to [`Queue`]; `state` has its fields and hands each event to the method that takes it.

mod census;
mod checks;
mod contenders;
mod creates;
mod deletes;
mod doomed;
mod downgrade;
mod far;
mod grants;
mod in_the_way;
mod index;
mod join;
mod joins;
mod line;
mod listing;
mod permits;
mod position;
mod probes;
mod ranks;
mod session;
mod state;
mod tries;
mod watch_book;
mod watches;

pub use far::NEAR;
pub use in_the_way::{Known, Standing};
pub use state::Queue;
