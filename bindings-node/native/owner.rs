//! Defines the owners that other programs see.

use std::sync::Arc;

use napi_derive::napi;
use zklock::internal::{caller_of, parse_owner_name};
use zklock::{Lease, Owner, OwnerInfo, Timeout};

use crate::error::{NODE, Result};

/// Limits of a wait for a lock, and the name of a new owner.
#[derive(Default)]
#[napi(object, object_to_js = false)]
pub struct NativeWait {
    pub timeout: Option<f64>,
    pub connect_timeout: Option<f64>,
    pub owner: Option<String>,
}

impl NativeWait {
    pub(crate) fn check(self) -> Result<(Timeout, Option<Arc<str>>)> {
        let Self { timeout, connect_timeout, owner } = self;
        Ok((NODE.bounded(NODE.timeout(timeout)?, connect_timeout)?, parse_owner_name(owner)?))
    }
}

/// Returns the owner that other programs see. Inside a scope, this is the owner of the scope's
/// lease, `inside`. Outside scopes, it is `owner`, with the name `name`.
pub fn caller(owner: &Owner, inside: Option<&Lease>, name: Option<Arc<str>>) -> Owner {
    inside.map_or_else(|| owner.id().named(name), |lease| caller_of(lease).clone())
}

/// An owner in this process.
#[napi(object, object_from_js = false)]
pub struct NativeOwner {
    pub number: i64,
    pub name: Option<String>,
}

impl From<Owner> for NativeOwner {
    fn from(owner: Owner) -> Self {
        Self { number: number(owner.number()), name: owner.name().map(str::to_owned) }
    }
}

/// An owner in any process.
#[napi(object, object_from_js = false)]
pub struct NativeOwnerInfo {
    pub number: i64,
    pub name: Option<String>,
    pub process: i64,
}

impl From<OwnerInfo> for NativeOwnerInfo {
    fn from(owner: OwnerInfo) -> Self {
        let OwnerInfo { number: counted, name, process, .. } = owner;
        Self { number: number(counted), name, process: number(process) }
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
