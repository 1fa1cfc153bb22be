//! The operations of a client, its locks and its leases. Each operation is a row of `table.txt`.

use zklock::{
    AnyLock, Election, LockOptions, MultiLock, Mutex, Permits, ReadWriteLock, Result, Semaphore, Timeout,
};

use super::{BRIEF, World, mutex};

pub(super) const OPERATIONS: [&str; 36] = [
    // Operations of a client.
    "ready",
    "get",
    "set_shared_count",
    "revoke",
    "break",
    "break a waiter",
    // Operations of a lock.
    "acquire",
    "acquire in time",
    "try",
    "try within",
    "hold",
    "contenders",
    "locked",
    "acquire what it holds",
    "try what it holds",
    // Operations of other kinds of locks.
    "read",
    "write",
    "permit",
    "permits of a shared count",
    "several locks",
    "campaign",
    "campaign in time",
    "leader",
    "observe",
    // Operations of a lease.
    "check",
    "release",
    "release in time",
    "release in background",
    "transaction",
    "failed transaction",
    "enter again",
    "lost",
    "revoked",
    // The end of a client.
    "drain",
    "drain long",
    "close",
];

/// If a call without a timeout takes longer than this, the test assumes that it waits forever. This
/// is longer than every timeout that could end the call.
const UNLIMITED: std::time::Duration = BRIEF.saturating_mul(10);

fn word<T>(result: Result<T>, well: impl FnOnce(T) -> String) -> String {
    result.map_or_else(|error| error.code().to_owned(), well)
}

fn ok<T>(result: Result<T>) -> String {
    word(result, |_| "ok".to_owned())
}

/// Awaits an acquire and releases the lease. Evaluates to `ok`, to an error code, or to `waits` if
/// the acquire does not complete within [`UNLIMITED`].
macro_rules! and_back {
    ($acquired:expr) => {
        match tokio::time::timeout(UNLIMITED, $acquired).await {
            Ok(Ok(lease)) => ok(lease.release().await),
            Ok(Err(error)) => error.code().to_owned(),
            Err(_) => "waits".to_owned(),
        }
    };
}

macro_rules! tried {
    ($tried:expr) => {
        match $tried.await {
            Ok(Some(lease)) => ok(lease.release().await),
            Ok(None) => "taken".to_owned(),
            Err(error) => error.code().to_owned(),
        }
    };
}

pub(super) async fn perform(operation: &str, world: &World) -> String {
    let client = &world.client;
    let free = mutex(client, "/free");
    let time = world.situation.patience();
    let holds = world.lease.as_ref().is_some_and(|lease| lease.check().is_ok());
    match operation {
        "ready" => ok(client.ready().await),
        "get" => {
            word(client.get("/none").await, |data| if data.is_some() { "data" } else { "none" }.to_owned())
        }
        "set_shared_count" => ok(client.set_shared_count("/count", 2).await),
        "revoke" => ok(client.revoke(&node(world)).await),
        "break" => ok(client.break_lock(&node(world)).await),
        "break a waiter" => ok(client.break_lock("/free/_c_x-lock-0000000007").await),
        "acquire" => and_back!(free.acquire()),
        "acquire in time" => and_back!(free.acquire_within(time)),
        "try" => tried!(free.try_acquire()),
        "try within" => tried!(free.try_acquire_within(time)),
        "hold" => {
            let held = tokio::time::timeout(UNLIMITED, free.hold(async |lease| lease.check().is_ok())).await;
            held.map_or_else(|_| "waits".to_owned(), |held| word(held, |held| held.to_string()))
        }
        "contenders" => word(free.contenders().await, |all| all.len().to_string()),
        "locked" => word(mutex(client, "/held").locked().await, |locked| locked.to_string()),
        "acquire what it holds" => {
            and_back!(mutex(client, "/held").acquire_within(if holds { BRIEF } else { time }))
        }
        "try what it holds" => tried!(mutex(client, "/held").try_acquire()),
        "read" | "write" => {
            let lock = ReadWriteLock::new(client, "/rw").expect("a path");
            if operation == "read" {
                tried!(lock.read_lock.try_acquire())
            } else {
                tried!(lock.write_lock.try_acquire())
            }
        }
        "permit" => tried!(Semaphore::new(client, "/permits", 2).expect("a path").try_acquire()),
        "permits of a shared count" => {
            let permits = Permits::SharedCount("/n".to_owned());
            let semaphore = Semaphore::with_options(client, "/counted", permits, LockOptions::default());
            and_back!(semaphore.expect("a path").acquire_many(1, time))
        }
        "several locks" => {
            let locks = ["/one", "/two"].map(|path| AnyLock::from(mutex(client, path)));
            tried!(MultiLock::new(locks).expect("locks").try_acquire())
        }
        "campaign" => and_back!(election(world).campaign_with(Timeout::Try)),
        "campaign in time" => and_back!(election(world).campaign_within(time)),
        "leader" => word(election(world).leader().await, |leader| leader.is_some().to_string()),
        "observe" => {
            let mut leaders = election(world).observe();
            let news = tokio::time::timeout(UNLIMITED, leaders.next()).await;
            news.map_or_else(|_| "waits".to_owned(), |news| word(news, |leader| leader.is_some().to_string()))
        }
        "drain" => ok(client.drain(BRIEF).await),
        "drain long" => {
            // Its locks are released or lost in the meantime.
            let draining = client.drain(super::LONG);
            if let Some(lease) = &world.lease {
                lease.release_in_background().map_err(|error| error.kind()).unwrap_or_default();
            }
            ok(draining.await)
        }
        "close" => ok(client.close().await),
        _ => of_a_lease(operation, world).await,
    }
}

async fn of_a_lease(operation: &str, world: &World) -> String {
    let Some(lease) = &world.lease else { return "-".to_owned() };
    match operation {
        "check" => ok(lease.check()),
        "release" => ok(lease.release().await),
        "release in time" => ok(lease.release_within(BRIEF).await),
        "release in background" => ok(lease.release_in_background()),
        "transaction" => ok(lease.transaction().create("/x", b"").delete("/x", None).commit().await),
        "failed transaction" => ok(lease.transaction().check("/none", 0).commit().await),
        "enter again" => {
            let lock: Mutex = mutex(&world.client, "/held");
            and_back!(lock.acquire_as(&lease.owner(), world.situation.patience()))
        }
        "lost" => {
            let lost = tokio::time::timeout(BRIEF, lease.lost()).await;
            lost.map_or_else(|_| "waits".to_owned(), |reason| reason.to_string())
        }
        "revoked" => {
            // No client revokes the lease, so the call waits in every state.
            let revoked = tokio::time::timeout(BRIEF, lease.revoked()).await;
            revoked.map_or_else(|_| "waits".to_owned(), |()| "asked".to_owned())
        }
        _ => panic!("no such operation: {operation}"),
    }
}

/// Returns the node of the lease that the client holds or held, or the path of a node that never
/// existed.
fn node(world: &World) -> String {
    world.lease.as_ref().map_or_else(|| "/held/_c_x-lock-0000000000".to_owned(), |lease| lease.node())
}

fn election(world: &World) -> Election {
    Election::new(&world.client, "/election").expect("a path")
}
