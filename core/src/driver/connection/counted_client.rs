//! Wraps the client of the `zookeeper-client` crate and counts every request.

use std::sync::Arc;

use zookeeper_client as zk;

use crate::metrics::RequestKind;
use crate::metrics::recorder::Recorder;

#[derive(Clone)]
pub(in crate::driver) struct CountedClient {
    client: zk::Client,
    recorder: Arc<Recorder>,
}

impl CountedClient {
    pub(in crate::driver) fn new(client: zk::Client, recorder: Arc<Recorder>) -> Self {
        Self { client, recorder }
    }

    /// Counts one request of this kind, and returns the client for sending it. There is no other
    /// access to the client, so every request is counted.
    pub(in crate::driver) fn ask(&self, request: RequestKind) -> &zk::Client {
        self.recorder.requested(request);
        &self.client
    }

    pub(in crate::driver) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }
}
