//! Exports reads and writes of data nodes next to the locks.

use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use zklock::internal::parse_count;
use zklock::{Client, NodeData};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::error::Result;

#[napi(object, object_from_js = false)]
pub struct NativeNodeData {
    pub data: Buffer,
    pub version: i32,
}

impl From<NodeData> for NativeNodeData {
    fn from(found: NodeData) -> Self {
        Self { data: found.data.into(), version: found.version }
    }
}

#[napi]
impl NativeClient {
    /// Starts an operation that reads a node. It yields the node's data, or nothing if there is no
    /// node.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn get(&self, bridge: &Bridge, path: String) -> Result<i64> {
        let client = Client::clone(&self.client);
        bridge.start(async move { Ok(client.get(&path).await?.map(NativeNodeData::from)) })
    }

    /// Starts an operation that sets a shared count.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn set_shared_count(&self, bridge: &Bridge, path: String, count: f64) -> Result<i64> {
        let (client, count) = (Client::clone(&self.client), parse_count("count", count)?);
        bridge.start(async move { client.set_shared_count(&path, count).await })
    }
}
