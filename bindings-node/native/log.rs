//! Delivers the core's log events to JavaScript.

use std::sync::Arc;

use napi::bindgen_prelude::{Either3, Function};
use napi_derive::napi;
use zklock::internal::log::{Listener, LogLevel, Value};

use crate::bridge::Wake;

/// A log event.
#[napi(object, object_from_js = false)]
pub struct NativeRecord {
    pub level: &'static str,
    pub target: &'static str,
    /// In milliseconds since 1970.
    pub time: f64,
    pub message: String,
    /// Times are in milliseconds.
    pub fields: Vec<(&'static str, Either3<String, f64, bool>)>,
}

/// The events that have arrived since the last call.
#[napi(object, object_from_js = false)]
pub struct NativeBacklog {
    pub records: Vec<NativeRecord>,
    /// Number of further events that were dropped.
    pub dropped: i64,
}

/// The log listener of one JavaScript environment. It stops when the environment ends. It does not
/// keep the process alive.
#[napi]
pub struct NativeListener {
    listener: Arc<Listener>,
}

#[napi]
impl NativeListener {
    /// Creates a listener that calls `wake` when events have arrived. It receives no events until
    /// `set_level` is called.
    ///
    /// # Errors
    /// Returns an error if Node refuses to register `wake`.
    #[napi(constructor)]
    pub fn new(wake: Function<'_, (), ()>) -> napi::Result<Self> {
        let wake = Wake::new(&wake)?;
        Ok(Self { listener: Listener::new(None, move || wake.call()) })
    }

    /// Makes the listener receive events of this level and of more severe levels. If `level` names
    /// no known level, the listener receives no events.
    #[napi]
    pub fn set_level(&self, level: Option<String>) {
        self.listener
            .set_level(LogLevel::ALL.into_iter().find(|known| level.as_deref() == Some(known.as_str())));
    }

    /// Returns the events that have arrived since the last call.
    #[napi]
    pub fn take(&self) -> NativeBacklog {
        let backlog = self.listener.take();
        let records = backlog.records.iter().map(|record| NativeRecord {
            level: record.level.as_str(),
            target: record.target,
            time: record.time.as_secs_f64() * 1000.0,
            message: record.message.clone(),
            fields: record.fields.iter().map(|(name, value)| (*name, to_js(value))).collect(),
        });
        NativeBacklog {
            records: records.collect(),
            dropped: i64::try_from(backlog.dropped).unwrap_or(i64::MAX),
        }
    }
}

/// Converts the value of a field to JavaScript's types and units.
fn to_js(value: &Value) -> Either3<String, f64, bool> {
    match value {
        Value::Text(text) => Either3::A(text.clone()),
        Value::Number(number) => Either3::B(*number),
        Value::Time(time) => Either3::B(time.as_secs_f64() * 1000.0),
        Value::Flag(flag) => Either3::C(*flag),
    }
}
