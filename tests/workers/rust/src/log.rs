//! Reports every log event of the library to the tests, formatted like a line of a log.

use std::fmt::Debug;

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::write;

/// Starts to report events.
pub(crate) fn listen() {
    // A second call fails, and the first subscriber continues.
    tracing::subscriber::set_global_default(Teller).ok();
}

struct Teller;

#[derive(Default)]
struct Line {
    text: String,
    fields: Vec<String>,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        if field.name() == "message" { self.text = value } else { self.fields.push(value) }
    }

    fn record_str(&mut self, _: &Field, value: &str) {
        self.fields.push(value.to_owned());
    }
}

impl Subscriber for Teller {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("zklock")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let Line { text, fields } = line;
        let line: Value = json!({"event": "log", "text": text, "fields": fields});
        write(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
