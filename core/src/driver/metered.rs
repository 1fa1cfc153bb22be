//! The client crate's client, which counts what is asked of it.

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

    /// Where one request of this kind goes. There is no other way to send one, so that none is forgotten.
    pub(super) fn ask(&self, request: RequestKind) -> &zk::Client {
        self.meter.requested(request);
        &self.client
    }

    pub(super) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }
}
