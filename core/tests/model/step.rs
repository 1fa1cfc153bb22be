//! What may happen in the world.

use zklock::queue::{Kind, Naming};

use super::attempt::Plan;
use super::server::{Permission, Zxid};

/// Something that happens. The first number is that of the client, or of the foreign contender. An impossible step does
/// nothing. Numbers of joins and nodes wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Join(usize, Naming, Kind),
    Try(usize, Naming, Kind),
    /// An owner asks for both halves of a read/write lock at once.
    JoinBoth(usize, Naming),
    /// The owner of a write lock asks for the read lock too.
    ReadToo(usize, Naming, usize),
    /// The same, and it only tries.
    TryToReadToo(usize, Naming, usize),
    Leave(usize, usize),
    Release(usize, usize),
    WatchHold(usize, usize),
    /// The time for which a node is kept is over.
    EndKeeping(usize, usize),
    /// The owner of a node is asked to give up the lock.
    Revoke(usize, usize),
    /// The application asks for several locks, or for permits; `true`: it only tries.
    Acquire(usize, Plan, bool),
    /// The task of an attempt at several runs.
    Run(usize, usize),
    /// An attempt at several is cancelled, or what it has is released.
    End(usize, usize),
    LookAgain(usize),
    /// Nothing that was in doubt can come any more.
    Certain(usize),
    /// The driver sends a heartbeat, if it has a reason for one.
    Beat(usize),
    /// The crate writes this many requests.
    Flush(usize, usize),
    /// The server takes a request.
    Serve(usize),
    /// The server answers that it is too busy for a request.
    Throttle(usize),
    /// The driver puts off taking in the next of its inputs that a request was lost with its connection.
    PutOff(usize),
    /// The pause after which answers are taken in that were put off is over.
    EndPause(usize),
    /// An event that a watch should have reported does not come.
    Miss(usize),
    /// The client's server catches up by one transaction.
    Advance(usize),
    /// The crate reads a message.
    Receive(usize),
    /// The crate reads all that has come.
    ReceiveAll(usize),
    /// The driver takes this many inputs.
    Drive(usize, usize),
    /// All of these until nothing moves, with a server that does not lag; then the driver takes all inputs.
    Pump(usize),
    /// A moment passes, where time passes.
    Tick,
    Cut(usize),
    /// The client's server is cut off from the majority, and goes on answering what needs none: listings and syncs.
    Depose(usize),
    /// A request that had reached the server before the cut is carried out after all.
    ServeGhost(usize),
    /// The client connects again, to a server that is this many transactions behind.
    Reconnect(usize, Zxid),
    /// The server that the client was cut from takes the session back, with the requests that had reached that server.
    TakeBack(usize),
    /// The client's term ends: no proof came in time.
    EndTerm(usize),
    /// Enough time passes that the server ends the client's session. The term was over before.
    Expire(usize),
    /// The client ends its session, and the server does not know.
    GiveUp(usize),
    /// The client connects to a server that cannot restore its session, and finds itself in another one.
    Replace(usize),
    /// The client connects to a server that cannot restore its session, adopts another one, and does not notice. The
    /// server is this many transactions behind.
    Adopt(usize, Zxid),
    /// The client's process dies, and another one begins.
    Kill(usize),
    /// The server ends the sessions of a client that were replaced, or whose process has died.
    Bury(usize),
    Establish(usize),
    Enter(usize, Kind),
    Look(usize),
    Exit(usize),
    Downgrade(usize),
    /// The process of a foreign contender dies.
    Crash(usize),
    /// The ensemble ends the session of a foreign contender whose process has died.
    Inter(usize),
    /// An operator deletes a node.
    Delete(usize),
    /// An operator changes a node's data.
    Change(usize),
    /// An operator forbids something, or permits everything again.
    Forbid(Option<Permission>),
    /// The server removes the directory if it is empty.
    Reap,
}
