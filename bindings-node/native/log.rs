//! Core's events on their way to JavaScript.

use std::sync::Arc;

use napi::bindgen_prelude::{Either3, Function};
use napi_derive::napi;
use zklock::internal::log::{Listener, LogLevel, Value};

use crate::bridge::Wake;

/// An event.
#[napi(object, object_from_js = false)]
pub struct NativeRecord {
    pub level: &'static str,
    pub target: &'static str,
    /// In ms since 1970.
    pub time: f64,
    pub message: String,
    /// Times in ms.
    pub fields: Vec<(&'static str, Either3<String, f64, bool>)>,
}

/// The events that have arrived.
#[napi(object, object_from_js = false)]
pub struct NativeBacklog {
    pub records: Vec<NativeRecord>,
    /// How many more there would have been.
    pub dropped: i64,
}

/// Listens for one JavaScript environment. Weak, so it does not keep the process alive; goes with its environment.
#[napi]
pub struct NativeListener {
    listener: Arc<Listener>,
}

#[napi]
impl NativeListener {
    /// A listener that calls `wake` when there is something to take. It receives nothing until it is given a level.
    ///
    /// # Errors
    /// If Node refuses.
    #[napi(constructor)]
    pub fn new(wake: Function<'_, (), ()>) -> napi::Result<Self> {
        let wake = Wake::new(&wake)?;
        Ok(Self { listener: Listener::new(None, move || wake.call()) })
    }

    /// Listens to this level and graver ones from now on; to none for any other word.
    #[napi]
    pub fn set_level(&self, level: Option<String>) {
        self.listener
            .set_level(LogLevel::ALL.into_iter().find(|known| level.as_deref() == Some(known.as_str())));
    }

    /// The events that have arrived since the last call.
    #[napi]
    pub fn take(&self) -> NativeBacklog {
        let backlog = self.listener.take();
        let records = backlog.records.iter().map(|record| NativeRecord {
            level: record.level.as_str(),
            target: record.target,
            time: record.time.as_secs_f64() * 1000.0,
            message: record.message.clone(),
            fields: record.fields.iter().map(|(name, value)| (*name, given(value))).collect(),
        });
        NativeBacklog {
            records: records.collect(),
            dropped: i64::try_from(backlog.dropped).unwrap_or(i64::MAX),
        }
    }
}

/// What a field says, in JavaScript's types and units.
fn given(value: &Value) -> Either3<String, f64, bool> {
    match value {
        Value::Text(text) => Either3::A(text.clone()),
        Value::Number(number) => Either3::B(*number),
        Value::Time(time) => Either3::B(time.as_secs_f64() * 1000.0),
        Value::Flag(flag) => Either3::C(*flag),
    }
}
