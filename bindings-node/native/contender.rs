//! Converts contenders to plain JavaScript objects.

use napi::bindgen_prelude::{BigInt, Buffer};
use napi_derive::napi;
use zklock::internal::Escaped;
use zklock::{Contender, ContenderInfo};

use crate::owner::NativeOwnerInfo;

#[napi(object, object_from_js = false)]
pub struct NativeContender {
    pub position: u32,
    pub node: String,
    pub reader: bool,
    pub session_id: BigInt,
    pub fencing_token: BigInt,
    pub about: Option<NativeAbout>,
    pub data: Buffer,
    pub data_length: u32,
}

#[napi(object, object_from_js = false)]
pub struct NativeAbout {
    pub host: String,
    pub pid: u32,
    pub language: String,
    pub label: Option<String>,
    /// In milliseconds since 1970.
    pub since: i64,
    pub owner: Option<NativeOwnerInfo>,
    pub revoked: bool,
    pub cohort: Option<u32>,
    /// In milliseconds.
    pub linger: Option<i64>,
}

impl NativeContender {
    /// Converts the contenders of a lock's queue.
    pub(crate) fn all(contenders: Vec<Contender>) -> Vec<Self> {
        contenders.into_iter().map(Self::from).collect()
    }
}

impl From<Contender> for NativeContender {
    fn from(contender: Contender) -> Self {
        Self {
            position: u32::try_from(contender.position).unwrap_or(u32::MAX),
            node: contender.node,
            reader: contender.reader,
            session_id: BigInt::from(contender.session_id),
            fencing_token: BigInt::from(contender.fencing_token),
            about: contender.about.map(Into::into),
            data: contender.data.into(),
            data_length: u32::try_from(contender.data_length).unwrap_or(u32::MAX),
        }
    }
}

impl From<ContenderInfo> for NativeAbout {
    fn from(about: ContenderInfo) -> Self {
        let ContenderInfo { host, pid, language, label, since, owner, revoked, cohort, linger, .. } = about;
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let linger = linger.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let owner = owner.map(Into::into);
        Self { host, pid, language, label, since, owner, revoked, cohort, linger }
    }
}

/// Escapes every nonprinting character of text from another program.
#[napi]
pub fn shown(text: String) -> String {
    Escaped(&text).to_string()
}
