//! Exports leases to JavaScript.

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
    /// Leases of re-entries by the same owner. They have no JavaScript objects, because creating
    /// and collecting an object takes longer than the rest of a re-entry.
    inner: RefCell<Vec<Option<Lease>>>,
}

/// The core lease behind a JavaScript lease.
pub enum Held {
    /// A lease from an acquire.
    Own(Lease),
    /// The lease of a once-per-slot run. The `Turn` releases it.
    Turn(Arc<Lease>),
}

impl Deref for Held {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::Own(lease) => lease,
            Self::Turn(lease) => lease,
        }
    }
}

impl ObjectFinalize for NativeLease {
    /// Runs when the garbage collector drops the lease. Does not run for a lease that JavaScript
    /// never received, for example because of an abort.
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
        Self { lease: Held::Turn(lease), inner: RefCell::default() }
    }
}

impl NativeLease {
    /// Stores the lease of a re-entry, and returns its number. The number is valid until the lease
    /// is released or taken out by `inner`.
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

    /// Converts the leases of one acquire.
    pub(crate) fn all(leases: Leases) -> Vec<Self> {
        leases.into_iter().map(Self::from).collect()
    }
}

/// Returns the core leases behind JavaScript leases.
pub fn core_leases<'a>(leases: &'a [ClassInstance<'_, NativeLease>]) -> Vec<&'a Lease> {
    leases.iter().map(|lease| &*lease.lease).collect()
}

/// A loss: the error's message and the reason.
#[napi(object, object_from_js = false)]
pub struct NativeLoss {
    pub message: String,
    pub reason: Option<&'static str>,
    /// Whether the loss is attached to the body's error. Otherwise it is thrown.
    pub attached: bool,
}

impl NativeLoss {
    fn new(loss: &zklock::Error, attached: bool) -> Self {
        let reason = loss.loss_reason().map(LossReason::as_str);
        Self { message: loss.to_string(), reason, attached }
    }
}

/// Returns the loss that a scope must report at its end, or nothing. If the scope's body failed,
/// `raised` classifies its error: a `loss`, an abort that the loss caused (`cancelled`), or any
/// other `error`.
#[napi(ts_args_type = "leases: NativeLease[], raised?: 'loss' | 'cancelled' | 'error'")]
pub fn loss_to_report(
    leases: Vec<ClassInstance<'_, NativeLease>>,
    raised: Option<String>,
) -> Option<NativeLoss> {
    let raised = match raised.as_deref() {
        None => BodyOutcome::Nothing,
        Some("loss") => BodyOutcome::Loss,
        Some("cancelled") => BodyOutcome::Cancelled,
        Some(_) => BodyOutcome::Error,
    };
    match scope_error(core_leases(&leases).into_iter().find_map(Acquired::loss), raised) {
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

    /// The remaining time in milliseconds.
    #[napi(getter)]
    pub fn remaining(&self) -> f64 {
        self.lease.remaining().as_secs_f64() * 1000.0
    }

    /// The session timeout in milliseconds.
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

    /// Records that JavaScript keeps the lease until it is released or lost. Health reports show
    /// such a lease as pinned.
    #[napi]
    pub fn pin(&self) {
        pin(&self.lease);
    }

    /// Logs a warning that an acquire inside this lease's `await using` block waits for the block's
    /// own lock.
    #[napi]
    pub fn warn_of_wait_in_block(&self) {
        warn_of_wait_for_oneself(
            &self.lease,
            "an acquire waits for the `await using` block around it, which holds the lock: such a block does not \
             allow re-entry. Pass { within: lease } to the acquire, or hold the lock with using()",
        );
    }

    /// Starts an operation that ends, without a value, when the lease is lost.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn lost(&self, bridge: &Bridge) -> Result<i64> {
        let lost = self.lease.lost();
        bridge.start(async move {
            lost.await;
            Ok(())
        })
    }

    /// Starts an operation that ends, without a value, when a revocation request arrives.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn revoked(&self, bridge: &Bridge) -> Result<i64> {
        let revoked = self.lease.revoked();
        bridge.start(async move {
            revoked.await;
            Ok(())
        })
    }

    /// Releases the lease at the end of a scope. The results are:
    ///
    /// - Zero: the lease is released, and there is nothing to wait for or to report.
    /// - Another number: the id of the operation that waits for the release.
    /// - Nothing: the lease had already been lost or released, so this call did not change it.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn leave(&self, bridge: &Bridge) -> Result<Option<i64>> {
        match bridge.work(|| leave(&*self.lease)) {
            ScopeExit::All => Ok(None),
            ScopeExit::Nothing => Ok(Some(0)),
            ScopeExit::ToWait(released) => bridge.start(released).map(Some),
        }
    }

    /// Works like `leave` for the stored lease of a re-entry. Removes the lease if the result is
    /// zero.
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

    /// Takes the stored lease of a re-entry out of this lease, and returns it as a JavaScript
    /// object.
    #[napi]
    pub fn inner(&self, id: u32) -> NativeLease {
        self.take_inner(id).map_or_else(|| self.remains(), Self::from)
    }

    /// Returns an object for a re-entry whose lease has already been released.
    #[napi]
    pub fn remains(&self) -> NativeLease {
        remains(&self.lease).into()
    }

    /// Releases the lease. The request has been sent when this function returns. Returns an
    /// operation that ends when the server has acknowledged the release, or after `timeout`.
    /// Returns nothing if there is nothing to wait for.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`, or `CONNECTION_FAILED` if the library's thread cannot be started.
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
            // Reported through the bridge, like all other failures.
            Poll::Ready(failed) => bridge.start(ready(failed)).map(Some),
            Poll::Pending => bridge.start(released).map(Some),
        }
    }
}
