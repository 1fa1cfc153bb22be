//! Leases.

use std::cell::RefCell;
use std::future::ready;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use napi::Env;
use napi::bindgen_prelude::{BigInt, ClassInstance, ObjectFinalize};
use napi_derive::napi;
use zklock::internal::{
    Acquired, BodyOutcome, ScopeError, ScopeExit, collectable, leave, pin, remains, scope_error,
    warn_of_wait_for_oneself,
};
use zklock::{Lease, Leases, LossReason};

use crate::bridge::Bridge;
use crate::error::{NODE, Result};
use crate::transaction::NativeTransaction;

/// A lease. When JavaScript drops it, it is released in the background.
#[napi(custom_finalize)]
pub struct NativeLease {
    pub(crate) lease: Held,
    /// Further leases of its owner, for which there are no objects: making one, and having it collected, takes longer
    /// than all else that entering a lock again takes.
    inner: RefCell<Vec<Option<Lease>>>,
}

/// A lease of core's.
pub enum Held {
    /// Of an acquire.
    Own(Lease),
    /// Of a turn, which releases it.
    OfTurn(Arc<Lease>),
}

impl Deref for Held {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::Own(lease) => lease,
            Self::OfTurn(lease) => lease,
        }
    }
}

impl ObjectFinalize for NativeLease {
    /// The garbage collector drops it. What JavaScript never received, as after an abort, is dropped without this.
    fn finalize(self, _: Env) -> napi::Result<()> {
        let Self { lease, inner } = self;
        for inner in inner.into_inner().into_iter().flatten() {
            drop(collectable(inner));
        }
        if let Held::Own(lease) = lease {
            drop(collectable(lease));
        }
        Ok(())
    }
}

impl From<Lease> for NativeLease {
    fn from(lease: Lease) -> Self {
        Self { lease: Held::Own(lease), inner: RefCell::default() }
    }
}

impl From<Arc<Lease>> for NativeLease {
    fn from(lease: Arc<Lease>) -> Self {
        Self { lease: Held::OfTurn(lease), inner: RefCell::default() }
    }
}

impl NativeLease {
    /// Keeps a further lease of its owner: its number, until it is left or taken.
    pub(crate) fn keep_inner(&self, lease: Lease) -> Option<u32> {
        let mut inner = self.inner.borrow_mut();
        let id = u32::try_from(inner.len()).ok()?;
        inner.push(Some(lease));
        Some(id)
    }

    fn take_inner(&self, id: u32) -> Option<Lease> {
        let mut inner = self.inner.borrow_mut();
        let lease = inner.get_mut(id as usize)?.take();
        while inner.last().is_some_and(Option::is_none) {
            inner.pop();
        }
        lease
    }

    /// The leases of one acquire.
    pub(crate) fn all(leases: Leases) -> Vec<Self> {
        leases.into_iter().map(Self::from).collect()
    }
}

/// Core's leases inside those of JavaScript.
pub fn inside<'a>(leases: &'a [ClassInstance<'_, NativeLease>]) -> Vec<&'a Lease> {
    leases.iter().map(|lease| &*lease.lease).collect()
}

/// A loss: the error's message, and why.
#[napi(object, object_from_js = false)]
pub struct NativeLoss {
    pub message: String,
    pub reason: Option<&'static str>,
    /// Whether it is attached to the error of the body. Otherwise it is thrown.
    pub attached: bool,
}

impl NativeLoss {
    fn new(loss: &zklock::Error, attached: bool) -> Self {
        let reason = loss.loss_reason().map(LossReason::as_str);
        Self { message: loss.to_string(), reason, attached }
    }
}

/// The loss that the end of a scope throws, or attaches. `raised`: what the body threw, if anything: a `loss`, an abort
/// that the loss caused (`cancelled`), or any other `error`.
#[napi(ts_args_type = "leases: NativeLease[], raised?: 'loss' | 'cancelled' | 'error'")]
pub fn loss_to_tell(
    leases: Vec<ClassInstance<'_, NativeLease>>,
    raised: Option<String>,
) -> Option<NativeLoss> {
    let raised = match raised.as_deref() {
        None => BodyOutcome::Nothing,
        Some("loss") => BodyOutcome::Loss,
        Some("cancelled") => BodyOutcome::Cancelled,
        Some(_) => BodyOutcome::Error,
    };
    match scope_error(inside(&leases).into_iter().find_map(Acquired::loss), raised) {
        ScopeError::OfBody => None,
        ScopeError::Loss(loss) => Some(NativeLoss::new(&loss, false)),
        ScopeError::OfBodyWithLoss(loss) => Some(NativeLoss::new(&loss, true)),
    }
}

#[napi]
impl NativeLease {
    #[napi(getter)]
    pub fn path(&self) -> &str {
        self.lease.path()
    }

    #[napi(getter)]
    pub fn node(&self) -> String {
        self.lease.node()
    }

    #[napi(getter)]
    pub fn mode(&self) -> &'static str {
        self.lease.mode().as_str()
    }

    #[napi(getter)]
    pub fn fencing_token(&self) -> BigInt {
        BigInt::from(self.lease.fencing_token())
    }

    #[napi(getter)]
    pub fn handoffs(&self) -> u32 {
        self.lease.handoffs()
    }

    #[napi(getter)]
    pub fn session_id(&self) -> BigInt {
        BigInt::from(self.lease.session_id())
    }

    #[napi(getter)]
    pub fn state(&self) -> &'static str {
        self.lease.state().as_str()
    }

    #[napi(getter)]
    pub fn loss_reason(&self) -> Option<&'static str> {
        self.lease.loss_reason().map(LossReason::as_str)
    }

    /// In milliseconds.
    #[napi(getter)]
    pub fn remaining(&self) -> f64 {
        self.lease.remaining().as_secs_f64() * 1000.0
    }

    /// In milliseconds.
    #[napi(getter)]
    pub fn session_timeout(&self) -> f64 {
        self.lease.session_timeout().as_secs_f64() * 1000.0
    }

    /// Begins a transaction.
    #[napi]
    pub fn transaction(&self) -> NativeTransaction {
        NativeTransaction::new(self.lease.transaction())
    }

    /// Succeeds while the lock is held.
    ///
    /// # Errors
    /// `LOCK_LOST`, `NOT_HELD`.
    #[napi]
    pub fn check(&self) -> Result<()> {
        Ok(self.lease.check()?)
    }

    /// Notes that JavaScript keeps it until it is released or lost.
    #[napi]
    pub fn pin(&self) {
        pin(&self.lease);
    }

    /// Tells the log that an acquire waits for this lease in its own `await using` block.
    #[napi]
    pub fn warn_of_wait_in_block(&self) {
        warn_of_wait_for_oneself(
            &self.lease,
            "an acquire waits for the `await using` block around it, which holds the lock, and such a block is no scope \
             for re-entry: pass { within: lease } to the acquire, or hold the lock with using()",
        );
    }

    /// Starts to wait for the loss; ends, with nothing, when it happens.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn lost(&self, bridge: &Bridge) -> Result<i64> {
        let lost = self.lease.lost();
        bridge.start(async move {
            lost.await;
            Ok(())
        })
    }

    /// Starts to wait until a contender asks for the lock; ends, with nothing, when it happens.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn revoked(&self, bridge: &Bridge) -> Result<i64> {
        let revoked = self.lease.revoked();
        bridge.start(async move {
            revoked.await;
            Ok(())
        })
    }

    /// Releases at the end of a scope. Zero: it is released, and there is nothing to wait for or to tell of. Otherwise the
    /// operation that waits. Nothing: it was lost or released before, and is left as it is.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to wait on.
    #[napi]
    pub fn leave(&self, bridge: &Bridge) -> Result<Option<i64>> {
        match bridge.work(|| leave(&*self.lease)) {
            ScopeExit::All => Ok(None),
            ScopeExit::Nothing => Ok(Some(0)),
            ScopeExit::ToWait(released) => bridge.start(released).map(Some),
        }
    }

    /// As `leave`, of a further lease that is kept here. If there is something to wait for or to tell of, it is still to be
    /// taken.
    ///
    /// # Errors
    /// As `leave`.
    #[napi]
    pub fn leave_inner(&self, bridge: &Bridge, id: u32) -> Result<Option<i64>> {
        let left = bridge.work(|| {
            let inner = self.inner.borrow();
            inner.get(id as usize).and_then(Option::as_ref).map_or(ScopeExit::All, |inner| leave(inner))
        });
        match left {
            ScopeExit::All => Ok(None),
            ScopeExit::Nothing => {
                drop(self.take_inner(id));
                Ok(Some(0))
            }
            ScopeExit::ToWait(released) => bridge.start(released).map(Some),
        }
    }

    /// Such a lease as an object.
    #[napi]
    pub fn inner(&self, id: u32) -> NativeLease {
        self.take_inner(id).map_or_else(|| self.remains(), Self::from)
    }

    /// The same, of one that was left.
    #[napi]
    pub fn remains(&self) -> NativeLease {
        remains(&self.lease).into()
    }

    /// Releases; ends when the server has acknowledged it, or after `timeout`; at once, with nothing, unless there is
    /// something to wait for. The release is on its way when this returns.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`, or `CONNECTION_FAILED` if there is no thread to wait on.
    #[napi]
    pub fn release(&self, bridge: &Bridge, wait: bool, timeout: Option<f64>) -> Result<Option<i64>> {
        let timeout = NODE.releasing(wait, timeout)?;
        let (released, ended) = bridge.work(|| {
            let mut released = Acquired::release(&*self.lease, timeout);
            let ended = Pin::new(&mut released).poll(&mut Context::from_waker(Waker::noop()));
            (released, ended)
        });
        match ended {
            Poll::Ready(Ok(())) => Ok(None),
            // Told of where the others are.
            Poll::Ready(failed) => bridge.start(ready(failed)).map(Some),
            Poll::Pending => bridge.start(released).map(Some),
        }
    }
}
