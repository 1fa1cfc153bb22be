//! Core's events on their way to JavaScript.

use std::sync::Arc;

use napi::bindgen_prelude::Function;
use napi_derive::napi;
use zklock::binding::log::{Level, Listener};

use crate::wake::Wake;

/// An event.
#[napi(object, object_from_js = false)]
pub struct NativeRecord {
    pub level: &'static str,
    pub target: &'static str,
    /// In ms since 1970.
    pub time: f64,
    pub message: String,
    pub fields: Vec<(&'static str, String)>,
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
            .set_level(Level::ALL.into_iter().find(|known| level.as_deref() == Some(known.as_str())));
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
            fields: record.fields.clone(),
        });
        NativeBacklog {
            records: records.collect(),
            dropped: i64::try_from(backlog.dropped).unwrap_or(i64::MAX),
        }
    }
}
