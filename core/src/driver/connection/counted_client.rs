//! The client crate's client, with its requests counted.

use std::sync::Arc;

use zookeeper_client as zk;

use crate::metrics::RequestKind;
use crate::metrics::recorder::Meter;

#[derive(Clone)]
pub(in crate::driver) struct Metered {
    client: zk::Client,
    meter: Arc<Meter>,
}

impl Metered {
    pub(in crate::driver) fn new(client: zk::Client, meter: Arc<Meter>) -> Self {
        Self { client, meter }
    }

    /// Sends one request of this kind. There is no other way to send one, so that none goes uncounted.
    pub(in crate::driver) fn ask(&self, request: RequestKind) -> &zk::Client {
        self.meter.requested(request);
        &self.client
    }

    pub(in crate::driver) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }
}
