//! Exports leader election to JavaScript.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::BigInt;
use napi_derive::napi;
use zklock::internal::{Rounds, bad_argument, error};
use zklock::{Candidate, Election, ErrorKind, Leaders, Lease};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;

/// An election.
#[napi]
pub struct NativeElection {
    election: Election,
}

/// Creates an election. Sends nothing.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi]
pub fn election(client: &NativeClient, path: String, id: Option<String>) -> Result<NativeElection> {
    let client = &*client.client;
    let election = match id {
        Some(id) => Election::with_id(client, &path, id)?,
        None => Election::new(client, &path)?,
    };
    Ok(NativeElection { election })
}

#[napi]
impl NativeElection {
    #[napi(getter)]
    pub fn id(&self) -> String {
        self.election.id()
    }

    #[napi(getter)]
    pub fn is_leader(&self) -> bool {
        self.election.is_leader()
    }

    /// Starts a campaign. The operation yields a lease. Without `timeout` it waits forever. With a
    /// timeout of zero it does not wait.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn campaign(
        &self,
        bridge: &Bridge,
        timeout: Option<f64>,
        connect_timeout: Option<f64>,
    ) -> Result<i64> {
        let (election, timeout) =
            (self.election.clone(), NODE.bounded(NODE.timeout(timeout)?, connect_timeout)?);
        bridge.start(async move {
            let leadership = election.campaign_with(timeout).await?;
            Ok(NativeLease::from(Lease::from(leadership)))
        })
    }

    /// Starts an operation that reads the current leader. It yields a candidate, or nothing if
    /// there is none.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn leader(&self, bridge: &Bridge) -> Result<i64> {
        let election = self.election.clone();
        bridge.start(async move { Ok(election.leader().await?.map(NativeCandidate::from)) })
    }

    /// Starts an operation that yields the list of candidates.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn candidates(&self, bridge: &Bridge) -> Result<i64> {
        let election = self.election.clone();
        bridge.start(async move {
            let candidates = election.candidates().await?;
            Ok(candidates.into_iter().map(NativeCandidate::from).collect::<Vec<_>>())
        })
    }

    /// Returns a stream that yields the current leader, and the new leader after each change. Sends
    /// nothing yet.
    #[napi]
    pub fn observe(&self) -> NativeLeaders {
        NativeLeaders { leaders: Arc::new(Mutex::new(self.election.observe())) }
    }
}

/// Decides how long a candidate pauses before its next campaign, and when it stops campaigning.
#[napi]
pub struct NativeRounds {
    rounds: Rounds,
}

#[napi]
impl NativeRounds {
    #[allow(clippy::new_without_default, reason = "for JavaScript")]
    #[napi(constructor)]
    pub fn new() -> Self {
        Self { rounds: Rounds::default() }
    }

    /// Records that a leadership began.
    #[napi]
    pub fn begin(&mut self) {
        self.rounds.begin();
    }

    /// Records that the leadership ended. Returns the pause before the next campaign, in
    /// milliseconds.
    #[napi]
    pub fn end(&mut self) -> f64 {
        milliseconds(self.rounds.end())
    }

    /// Records that a campaign failed with this error code. Returns the pause before the next
    /// campaign in milliseconds, or nothing if the client is closed.
    ///
    /// # Errors
    /// Returns the error if a retry would fail in the same way.
    #[napi]
    pub fn fail(&mut self, path: String, code: String, message: String) -> Result<Option<f64>> {
        let Some(kind) = ErrorKind::ALL.iter().find(|kind| kind.code() == code) else {
            return Err(bad_argument("code", "is not known").into());
        };
        Ok(self.rounds.fail(&path, error(*kind, message))?.map(milliseconds))
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A stream that yields the current leader, and the new leader after each change.
#[napi]
pub struct NativeLeaders {
    leaders: Arc<Mutex<Leaders>>,
}

#[napi]
impl NativeLeaders {
    /// Starts an operation that waits for the next leader. It yields a candidate, or nothing if no
    /// candidate leads.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn next(&self, bridge: &Bridge) -> Result<i64> {
        let leaders = Arc::clone(&self.leaders);
        bridge.start(poll_fn(move |context| {
            let mut leaders = leaders.lock().unwrap_or_else(PoisonError::into_inner);
            leaders.poll_next(context).map_ok(|leader| leader.map(NativeCandidate::from))
        }))
    }
}

#[napi(object, object_from_js = false)]
pub struct NativeCandidate {
    pub position: u32,
    pub id: String,
    pub node: String,
    pub session_id: BigInt,
    pub fencing_token: BigInt,
}

impl From<Candidate> for NativeCandidate {
    fn from(candidate: Candidate) -> Self {
        Self {
            position: u32::try_from(candidate.position).unwrap_or(u32::MAX),
            id: candidate.id,
            node: candidate.node,
            session_id: BigInt::from(candidate.session_id),
            fencing_token: BigInt::from(candidate.fencing_token),
        }
    }
}
