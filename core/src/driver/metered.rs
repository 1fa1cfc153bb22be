//! The client crate's client, with its requests counted.

use std::sync::Arc;

use zookeeper_client as zk;

use crate::meter::Meter;
use crate::stats::RequestKind;

#[derive(Clone)]
pub(super) struct Metered {
    client: zk::Client,
    meter: Arc<Meter>,
}

impl Metered {
    pub(super) fn new(client: zk::Client, meter: Arc<Meter>) -> Self {
        Self { client, meter }
    }

    /// Sends one request of this kind. There is no other way to send one, so that none goes uncounted.
    pub(super) fn ask(&self, request: RequestKind) -> &zk::Client {
        self.meter.requested(request);
        &self.client
    }

    pub(super) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }
}
