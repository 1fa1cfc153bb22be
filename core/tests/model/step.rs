//! The steps that change the state of the world.

use zklock::queue::{Kind, Naming};

use super::attempt::Plan;
use super::server::{Permission, Zxid};

/// The first number is the index of the client or of the foreign contender. Indexes that are too
/// large wrap around. A step that is impossible in the current state does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Join(usize, Naming, Kind),
    Try(usize, Naming, Kind),
    /// An owner requests the read lock and the write lock of one path at the same time.
    JoinBoth(usize, Naming),
    /// The owner of a write lock requests the read lock too.
    RequestReadLock(usize, Naming, usize),
    /// The owner of a write lock also requests the read lock, without waiting.
    TryReadLock(usize, Naming, usize),
    Leave(usize, usize),
    Release(usize, usize),
    WatchHold(usize, usize),
    /// The time for which a node is kept is over.
    EndKeeping(usize, usize),
    /// The owner of a node is asked to give up the lock.
    Revoke(usize, usize),
    /// The application requests several locks or permits. If the flag is `true`, the acquire does
    /// not wait.
    Acquire(usize, Plan, bool),
    /// The task of an acquire of several locks or permits runs.
    Run(usize, usize),
    /// An acquire of several locks or permits is cancelled, or its leases are released.
    End(usize, usize),
    LookAgain(usize),
    /// Time passes until the server can no longer execute a create whose result is unknown.
    Certain(usize),
    /// The driver sends a heartbeat, if it has a reason to.
    Beat(usize),
    /// The client crate writes this many requests to the connection.
    Flush(usize, usize),
    /// The server handles a request.
    Serve(usize),
    /// The server replies that it is too busy for a request.
    Throttle(usize),
    /// The driver delays its next input that reports a lost request.
    PutOff(usize),
    /// The pause ends, and the driver receives the delayed replies.
    EndPause(usize),
    /// A watch event does not arrive.
    Miss(usize),
    /// The client's server applies one more transaction.
    Advance(usize),
    /// The crate reads a message.
    Receive(usize),
    /// The crate reads all messages that have arrived.
    ReceiveAll(usize),
    /// The driver processes this many inputs.
    Drive(usize, usize),
    /// The client and its server exchange all messages, and the server does not lag. Then the
    /// driver processes all inputs.
    Pump(usize),
    /// The clock advances by one step, in scenes that have a clock.
    Tick,
    Cut(usize),
    /// The client's server is cut off from the majority. It still answers listings and syncs, which
    /// need no majority.
    Depose(usize),
    /// The server executes a request that had reached it before the connection was cut.
    ServeGhost(usize),
    /// The client connects again, to a server that is this many transactions behind.
    Reconnect(usize, Zxid),
    /// The session returns to a previous server. That server then executes the session's requests
    /// that it still had in its queue.
    TakeBack(usize),
    /// The client's session is no longer certain to exist, because no reply arrived in time.
    EndTerm(usize),
    /// The server ends the client's session after the session timeout. Before that, the client has
    /// stopped relying on the session.
    Expire(usize),
    /// The client gives up its session without informing the server.
    GiveUp(usize),
    /// The client connects to a server that cannot restore its session, and learns immediately that
    /// it now has another session.
    Replace(usize),
    /// The client connects to a server that cannot restore its session. The client crate adopts
    /// another session and does not report that. The server is this many transactions behind.
    Adopt(usize, Zxid),
    /// The client's process dies, and another process starts.
    Kill(usize),
    /// The server ends the client's sessions that were replaced or whose process died.
    ExpireOldSessions(usize),
    Establish(usize),
    Enter(usize, Kind),
    Look(usize),
    Exit(usize),
    Downgrade(usize),
    /// The process of a foreign contender dies.
    Crash(usize),
    /// The ensemble ends the session of a contender of another program, whose process has died.
    ExpireForeign(usize),
    /// An operator deletes a node.
    Delete(usize),
    /// An operator changes a node's data.
    Change(usize),
    /// An operator denies a permission, or grants all permissions again.
    Forbid(Option<Permission>),
    /// The server removes the directory if it is empty.
    Reap,
}
