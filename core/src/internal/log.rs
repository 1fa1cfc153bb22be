//! Passes this library's log events to the listeners of bindings. A Rust program uses its own
//! `tracing` subscribers instead. This module does not affect those subscribers until a binding
//! starts to listen.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Metadata};

use crate::error::escape;
use crate::runtime::clock;
use crate::runtime::fork::PerProcess;

/// Maximum number of events in a listener's backlog. Further events are dropped and counted.
const CAPACITY: usize = 1000;

/// Severity of an event, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// A problem that does not resolve itself.
    Error = 1,
    /// The loss of a lock or session, or a problem that blocks progress.
    Warn,
    /// Session changes and long waits.
    Info,
    /// Every lock operation.
    Debug,
    /// Every step.
    Trace,
}

impl LogLevel {
    /// All levels, in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Returns the level's name, which is the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl From<tracing::Level> for LogLevel {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Self::Error,
            tracing::Level::WARN => Self::Warn,
            tracing::Level::INFO => Self::Info,
            tracing::Level::DEBUG => Self::Debug,
            tracing::Level::TRACE => Self::Trace,
        }
    }
}

/// An event. All unprintable characters in its message and fields are escaped.
#[derive(Debug)]
pub struct Record {
    /// Severity of the event.
    pub level: LogLevel,
    /// Name of the module that sent the event: a module of this library or of the ZooKeeper client
    /// crate.
    pub target: &'static str,
    /// Path of the source file, as the compiler records it.
    pub file: &'static str,
    /// Line in the source file.
    pub line: u32,
    /// Time of the event since 1970.
    pub time: Duration,
    /// Message without the fields.
    pub message: String,
    /// Fields by name.
    pub fields: Vec<(&'static str, Value)>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, escaped.
    Text(String),
    /// A count.
    Number(f64),
    /// A Boolean value.
    Flag(bool),
    /// A duration. The binding converts it to its language's unit.
    Time(Duration),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Time(time) => fmt::Debug::fmt(time, f),
        }
    }
}

/// Names of the fields with durations. `tracing` has no type for durations, so their values arrive
/// as the text of a `Duration`.
const TIMES: [&str; 3] = ["waited", "lasted", "last_proof"];

/// Parses the `{:?}` text of a `Duration`.
fn parse_time(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let unit = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

impl fmt::Display for Record {
    /// Writes the message, followed by the fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// A listener. Events wait in its backlog until the binding takes them. Dropping the listener stops
/// it.
pub struct Listener {
    /// Current level as a number, or 0 for none.
    level: AtomicU8,
    backlog: Mutex<Backlog>,
    /// Called when an event arrives and the backlog is empty. It must not block, because it can run
    /// on any thread.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Events that wait to be taken.
#[derive(Debug, Default)]
pub struct Backlog {
    /// Events in the order in which they happened.
    pub records: Vec<Arc<Record>>,
    /// Number of events that were dropped because the backlog was full.
    pub dropped: u64,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Listener {
    /// Starts to listen to events of at least this severity. `None` means no events. `wake` is
    /// called when an event arrives and the backlog is empty. `wake` must not block, because any
    /// thread can call it. [`take`](Self::take) returns the events.
    ///
    /// If the program has its own `tracing` subscriber, that subscriber receives the events and
    /// this listener receives none.
    pub fn new(level: Option<LogLevel>, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let listener =
            Arc::new(Self { level: AtomicU8::new(0), backlog: Mutex::default(), wake: Box::new(wake) });
        INSTALLED.get_or_init(|| tracing::subscriber::set_global_default(Emitter).is_ok());
        HUB.get_or_init(Hub::default).add(&listener);
        listener.set_level(level);
        listener
    }

    /// Changes the minimum severity of the events that this listener receives. `None` means no
    /// events.
    pub fn set_level(&self, level: Option<LogLevel>) {
        self.level.store(level.map_or(0, |level| level as u8), Ordering::Relaxed);
        if let Some(hub) = HUB.get() {
            hub.note_highest();
        }
    }

    fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Returns the events that have arrived since the last call.
    pub fn take(&self) -> Backlog {
        std::mem::take(&mut *self.backlog())
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, record: &Arc<Record>) {
        if self.level() < record.level as u8 {
            return;
        }
        let mut backlog = self.backlog();
        if backlog.records.len() == CAPACITY {
            backlog.dropped += 1;
            return;
        }
        backlog.records.push(Arc::clone(record));
        let first = backlog.records.len() == 1;
        drop(backlog);
        if first {
            (self.wake)();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(hub) = HUB.get() {
            hub.note_highest();
        }
    }
}

/// The listeners of one process. A forked child starts with none, because the listeners' threads
/// belong to the parent.
#[derive(Default)]
struct Hub {
    listeners: Mutex<Vec<Weak<Listener>>>,
}

static HUB: PerProcess<Hub> = PerProcess::new();

/// The most verbose level of all listeners. One comparison with it is enough to reject a more
/// verbose event.
static HIGHEST: AtomicU8 = AtomicU8::new(0);

/// `true` if this library's subscriber could be installed.
static INSTALLED: OnceLock<bool> = OnceLock::new();

impl Hub {
    fn add(&self, listener: &Arc<Listener>) {
        let mut listeners = self.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
    }

    /// Returns a copy of the list of listeners. Wake them only after the mutex is unlocked, because
    /// a woken listener can add or remove listeners.
    fn listeners(&self) -> Vec<Arc<Listener>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn note_highest(&self) {
        let highest = self.listeners().iter().map(|listener| listener.level()).max();
        HIGHEST.store(highest.unwrap_or(0), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subscriber that passes events to the listeners: all events of this library, and the warnings
/// of the ZooKeeper client crate. It drops the client crate's other events and its spans, because
/// they can reveal a session's password.
struct Emitter;

/// Returns the level at which an event is passed on, or `None` if it is dropped.
///
/// The client crate's warnings have the level `Debug` here. During an outage, the client crate logs
/// a warning for each connection attempt, many times a second. This library reports the outage only
/// once.
fn carried_level(metadata: &Metadata<'_>) -> Option<LogLevel> {
    let is_of = |name: &str| {
        metadata.target().strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    match LogLevel::from(*metadata.level()) {
        _ if !metadata.is_event() => None,
        level if is_of("zklock") => Some(level),
        level if is_of("zookeeper_client") && level <= LogLevel::Warn => Some(LogLevel::Debug),
        _ => None,
    }
}

impl Subscriber for Emitter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if carried_level(metadata).is_some() { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        carried_level(metadata).is_some_and(|level| level as u8 <= HIGHEST.load(Ordering::Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let (Some(hub), Some(level)) = (HUB.get(), carried_level(metadata)) else { return };
        let mut record = Record {
            level,
            target: metadata.target(),
            file: metadata.file().unwrap_or_default(),
            line: metadata.line().unwrap_or_default(),
            time: clock::since_1970(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut Fields(&mut record));
        let record = Arc::new(record);
        for listener in hub.listeners() {
            listener.push(&record);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &SpanRecord<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Collects the fields of an event.
struct Fields<'a>(&'a mut Record);

impl Fields<'_> {
    fn push(&mut self, field: &Field, value: Value) {
        self.0.fields.push((field.name(), value));
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, Value::Text(escape::message(value.to_owned().into()).into_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Value::Flag(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, Value::Number(value));
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "counts are small; what must be exact, such as a session, is text"
    )]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, Value::Number(value as f64));
    }

    #[expect(clippy::cast_precision_loss, reason = "as above")]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, Value::Number(value as f64));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Only this library's texts are already escaped.
        let text = escape::message(format!("{value:?}").into()).into_owned();
        match field.name() {
            "message" => self.0.message = text,
            name => {
                let time = TIMES.contains(&name).then(|| parse_time(&text)).flatten();
                self.push(field, time.map_or(Value::Text(text), Value::Time));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn times_are_read_from_their_text() {
        for nanos in [0, 1, 999, 1_000, 1_500, 999_999, 12_345_678, 1_000_000_000, 61_500_000_000] {
            let time = Duration::from_nanos(nanos);
            let read = parse_time(&format!("{time:?}")).unwrap();
            assert!(read.abs_diff(time) <= Duration::from_nanos(1), "{time:?} was read as {read:?}");
        }
        for other in ["", "5", "s", "1.2.3s", "5 s", "fives", "-1s"] {
            assert_eq!(parse_time(other), None, "{other:?}");
        }
    }

    /// This single test checks all behavior of listeners, because a process can have only one
    /// subscriber.
    #[test]
    fn listeners_hear_what_they_want_and_no_more_than_they_can_take() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let listener = Listener::new(Some(LogLevel::Warn), move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let other = Listener::new(None, || ());

        // Ignore the events of other tests in this process.
        let told = |records: &[Arc<Record>]| {
            let ours = |record: &&Arc<Record>| {
                [module_path!(), "zookeeper_client::session"].contains(&record.target)
            };
            let text = |record: &Arc<Record>| (record.level, record.to_string());
            records.iter().filter(ours).map(text).collect::<Vec<_>>()
        };
        let event = |level, text: &str| (level, text.to_owned());

        tracing::info!("not wanted");
        tracing::warn!(target: "somebody_else", "not ours");
        tracing::warn!(target: "zookeeper_client::session", "a detail");
        let waited = Duration::from_micros(1_234_567);
        tracing::warn!(path = "/a", number = 5, ?waited, contended = true, "wanted");
        tracing::warn!("wanted too");
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        let Backlog { records, dropped } = listener.take();
        let said = "wanted path=/a number=5 waited=1.234567s contended=true";
        let warnings = [event(LogLevel::Warn, said), event(LogLevel::Warn, "wanted too")];
        assert_eq!((told(&records), dropped), (warnings.to_vec(), 0));
        let fields = [
            ("path", Value::Text("/a".to_owned())),
            ("number", Value::Number(5.0)),
            ("waited", Value::Time(waited)),
            ("contended", Value::Flag(true)),
        ];
        assert!(records.iter().any(|record| record.fields == fields));
        assert!(other.take().records.is_empty());

        listener.set_level(Some(LogLevel::Debug));
        tracing::warn!(target: "zookeeper_client::session", said = "a\nb", host = %"c\u{202e}d", "{}", "\u{1b}[31m");
        let escaped = event(LogLevel::Debug, r"\u{1b}[31m said=a\nb host=c\u{202e}d");
        assert_eq!(told(&listener.take().records), [escaped]);

        listener.set_level(Some(LogLevel::Trace));
        tracing::info!(target: "zookeeper_client::session", "not carried");
        for _ in 0..CAPACITY + 3 {
            tracing::trace!("wanted now");
        }
        let Backlog { records, dropped } = listener.take();
        assert_eq!(records.len(), CAPACITY);
        assert!(dropped >= 3 && told(&records).iter().all(|(_, text)| text == "wanted now"));

        drop(listener);
        assert_eq!(HIGHEST.load(Ordering::Relaxed), 0);
    }
}
