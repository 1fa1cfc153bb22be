//! Exports the server for users' tests.
//!
//! The server's methods block for a moment, so they run on libuv's threads. They must not run on
//! the library's thread, because it serves the clients of the test.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use napi::bindgen_prelude::{AsyncTask, BigInt, Buffer, ToNapiValue, TypeName};
use napi::{Env, Task};
use napi_derive::napi;
use zklock_embedded::{Settings, TestServer};

use crate::error::{Failure, NODE, Result};

/// A blocking call, whose outcome becomes a promise.
pub struct Blocking<T>(Option<Box<dyn FnOnce() -> io::Result<T> + Send>>);

impl<T> Blocking<T> {
    fn new(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> AsyncTask<Self>
    where
        T: ToNapiValue + TypeName + Send + 'static,
    {
        AsyncTask::new(Self(Some(Box::new(call))))
    }
}

impl<T: ToNapiValue + TypeName + Send + 'static> Task for Blocking<T> {
    type Output = T;
    type JsValue = T;

    fn compute(&mut self) -> napi::Result<T> {
        // napi calls this once.
        let call = self.0.take().ok_or_else(|| napi::Error::from_reason("called twice"))?;
        call().map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    fn resolve(&mut self, _: Env, output: T) -> napi::Result<T> {
        Ok(output)
    }
}

/// A server, or the reason why it could not be started.
#[napi(object, object_from_js = false)]
pub struct Started {
    pub server: Option<NativeServer>,
    pub problem: Option<String>,
    /// The message of the operating system.
    pub errno: Option<i32>,
}

/// Starts a server on a port of this machine. Port 0 selects any free port.
#[napi(ts_return_type = "Promise<Started>")]
#[must_use]
pub fn start_server(port: u16) -> AsyncTask<Blocking<Started>> {
    Blocking::new(move || {
        Ok(match TestServer::start_on(("127.0.0.1", port), Settings::random()) {
            Ok(server) => {
                let server = Some(NativeServer { server: Arc::new(server) });
                Started { server, problem: None, errno: None }
            }
            Err(error) => {
                Started { server: None, problem: Some(error.to_string()), errno: error.raw_os_error() }
            }
        })
    })
}

/// A server on its own thread. It ends when it is garbage collected.
#[napi]
pub struct NativeServer {
    server: Arc<TestServer>,
}

impl NativeServer {
    fn call<T>(
        &self,
        call: impl FnOnce(&TestServer) -> io::Result<T> + Send + 'static,
    ) -> AsyncTask<Blocking<T>>
    where
        T: ToNapiValue + TypeName + Send + 'static,
    {
        let server = Arc::clone(&self.server);
        Blocking::new(move || call(&server))
    }
}

#[napi]
impl NativeServer {
    #[napi(getter)]
    pub fn hosts(&self) -> String {
        self.server.hosts()
    }

    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(ts_return_type = "Promise<boolean>")]
    pub fn expire(&self, session: BigInt) -> Result<AsyncTask<Blocking<bool>>> {
        let session = id(&session)?;
        Ok(self.call(move |server| server.expire(session)))
    }

    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(ts_return_type = "Promise<boolean>")]
    pub fn disconnect(&self, session: BigInt) -> Result<AsyncTask<Blocking<bool>>> {
        let session = id(&session)?;
        Ok(self.call(move |server| server.disconnect(session)))
    }

    #[napi(ts_return_type = "Promise<undefined>")]
    pub fn pause(&self) -> AsyncTask<Blocking<()>> {
        self.call(TestServer::pause)
    }

    #[napi(ts_return_type = "Promise<undefined>")]
    pub fn resume(&self) -> AsyncTask<Blocking<()>> {
        self.call(TestServer::resume)
    }

    /// Sets the latency of the server to `delay` milliseconds.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(ts_return_type = "Promise<undefined>")]
    pub fn latency(&self, delay: f64) -> Result<AsyncTask<Blocking<()>>> {
        let delay = NODE.duration("delay", delay)?;
        Ok(self.call(move |server| server.latency(delay)))
    }

    /// Returns the data of all nodes by path.
    #[napi(ts_return_type = "Promise<Record<string, Buffer>>")]
    pub fn tree(&self) -> AsyncTask<Blocking<BTreeMap<String, Buffer>>> {
        self.call(|server| {
            Ok(server.tree()?.into_iter().map(|(path, data)| (path, Buffer::from(data))).collect())
        })
    }

    #[napi(ts_return_type = "Promise<undefined>")]
    pub fn stop(&self) -> AsyncTask<Blocking<()>> {
        self.call(TestServer::stop)
    }
}

fn id(session: &BigInt) -> Result<i64> {
    let (id, lossless) = session.get_i64();
    if lossless {
        return Ok(id);
    }
    let message = "session: must be the id of a session, which has 64 bits".to_owned();
    Err(Failure { code: "BAD_ARGUMENT", message })
}
