//! Releases of leases, and contenders that hold a lock repeatedly.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zklock::{Client, Error, Lease, Mutex, Owner, Record, Slot, Timeout};

use crate::answers::Failure;
use crate::arguments::RUST;
use crate::command::{Once, SlotOf};
use crate::lockable::Lockable;
use crate::{now, write};

/// Releases all leases, the newest first. Sends all requests before it waits for a reply.
pub(crate) async fn release(leases: &[Rc<Lease>], timeout: Timeout) -> Result<(), Error> {
    let mut releases: Vec<Pin<Box<dyn Future<Output = _>>>> = Vec::new();
    for lease in leases.iter().rev() {
        match timeout {
            Timeout::Forever => releases.push(Box::pin(lease.release())),
            Timeout::For(time) => releases.push(Box::pin(lease.release_within(time))),
            Timeout::Try | Timeout::TryWithin(_) => lease.release_in_background()?,
        }
    }
    for released in releases {
        released.await?;
    }
    Ok(())
}

/// Runs one contender, which acquires and releases the lock repeatedly. Reports each hold.
pub(crate) async fn hold_often(
    id: Value,
    lock: Rc<Lockable>,
    number: usize,
    rounds: usize,
    hold_ms: [f64; 2],
) -> Result<usize, Failure> {
    for round in 0..rounds {
        let t_wait = now();
        let leases = lock.acquire(&Owner::new(), Timeout::Forever, None).await?;
        let t = now();
        let Some(lease) = leases.first() else { continue };
        pass_time(hold_ms).await;
        let t_end = now();
        lease.release().await?;
        write(json!({
            "id": id, "event": "held", "lease": format!("{number}.{round}"), "owner": number.to_string(), "node": lease.node(),
            "token": lease.fencing_token().to_string(), "t_wait": t_wait, "t": t, "t_end": t_end,
        }));
    }
    Ok(rounds)
}

/// Runs a body for a slot, unless the slot has already run. Reports the hold, and returns 1 if the body has run,
/// otherwise 0.
pub(crate) async fn hold_once(
    id: &Value,
    client: &Client,
    owner: &Owner,
    once: Once,
) -> Result<usize, Failure> {
    let lock = Mutex::new(client, &once.path)?;
    let t_wait = now();
    let body = |lease: Arc<Lease>| async move {
        let t = now();
        pass_time(once.hold_ms).await;
        let t_end = now();
        write(json!({
            "id": id, "event": "held", "lease": id.to_string(), "owner": once.owner, "node": lease.node(),
            "token": lease.fencing_token().to_string(), "t_wait": t_wait, "t": t, "t_end": t_end,
        }));
        Ok::<_, Error>(())
    };
    let ran = match once.slot {
        SlotOf::Key(key) => {
            let slot = Slot::key(key)?;
            lock.once_as(owner, &slot, Timeout::Forever, Record::default(), body).await?
        }
        SlotOf::Period(time) => lock.once_per(RUST.duration("period", time)?, body).await?,
    };
    Ok(ran.iter().len())
}

/// Sleeps for a random number of milliseconds in this range.
async fn pass_time([low, high]: [f64; 2]) {
    let time = low + (high - low) * fastrand::f64();
    tokio::time::sleep(Duration::from_secs_f64(time / 1000.0)).await;
}
