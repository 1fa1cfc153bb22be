//! Carries this library's events to a listener that is not written in Rust. For bindings: a program in Rust has its own
//! `tracing` subscribers, and nothing here gets in their way until a binding begins to listen.

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

/// How many events wait for a slow listener. Any more are dropped, and counted.
const CAPACITY: usize = 1000;

/// How grave an event is; the gravest level comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// Nothing will proceed by itself.
    Error = 1,
    /// Something was lost, or is in the way.
    Warn,
    /// The course of a session, and waits that took long.
    Info,
    /// Every lock.
    Debug,
    /// Every step.
    Trace,
}

impl LogLevel {
    /// All of them, in this order.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The level's name, the same in all languages.
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

/// An event. In message and fields all text is escaped that does not print.
#[derive(Debug)]
pub struct Record {
    /// How grave it is.
    pub level: LogLevel,
    /// Where it comes from: a module of this library, or of the ZooKeeper client below it.
    pub target: &'static str,
    /// The source file, as the compiler knows it.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// When it happened, since the beginning of 1970.
    pub time: Duration,
    /// What happened, without the fields.
    pub message: String,
    /// The details, by name.
    pub fields: Vec<(&'static str, Value)>,
}

/// What a field says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, escaped.
    Text(String),
    /// A count.
    Number(f64),
    /// Whether something is so.
    Flag(bool),
    /// How long something took, for the binding to give in its language's unit.
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

/// The fields that say how long something took. `tracing` has no such type, only the text of a `Duration`.
const TIMES: [&str; 3] = ["waited", "lasted", "last_proof"];

/// What the text of a `Duration` says, as `{:?}` writes it.
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
    /// The message, followed by the fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// A listener. Keeps events until they are taken; ends when it is dropped.
pub struct Listener {
    /// Zero for none.
    level: AtomicU8,
    backlog: Mutex<Backlog>,
    /// Called when the first event arrives in an empty backlog. Runs on any thread, so it must not wait.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Events that wait to be taken.
#[derive(Debug, Default)]
pub struct Backlog {
    /// In the order in which they happened.
    pub records: Vec<Arc<Record>>,
    /// How many more there would have been.
    pub dropped: u64,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Listener {
    /// Begins to listen to events of this level and graver ones; with `None`, to none yet. `wake` is called when the
    /// first event to [take](Self::take) arrives in an empty backlog, on any thread: it must not wait.
    ///
    /// Receives nothing in a program that has its own `tracing` subscriber, which then receives the events.
    pub fn new(level: Option<LogLevel>, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let listener =
            Arc::new(Self { level: AtomicU8::new(0), backlog: Mutex::default(), wake: Box::new(wake) });
        INSTALLED.get_or_init(|| tracing::subscriber::set_global_default(Emitter).is_ok());
        HUB.get_or_init(Hub::default).add(&listener);
        listener.set_level(level);
        listener
    }

    /// Listens to events of this level and graver ones from now on.
    pub fn set_level(&self, level: Option<LogLevel>) {
        self.level.store(level.map_or(0, |level| level as u8), Ordering::Relaxed);
        if let Some(hub) = HUB.get() {
            hub.note_highest();
        }
    }

    fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// The events that have arrived since the last call.
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

/// The listeners of one process. A forked child begins with none: their threads are the parent's.
#[derive(Default)]
struct Hub {
    listeners: Mutex<Vec<Weak<Listener>>>,
}

static HUB: PerProcess<Hub> = PerProcess::new();

/// The most verbose level that any listener wants, so that one comparison rejects the events that none wants.
static HIGHEST: AtomicU8 = AtomicU8::new(0);

/// Whether the subscriber could be installed.
static INSTALLED: OnceLock<bool> = OnceLock::new();

impl Hub {
    fn add(&self, listener: &Arc<Listener>) {
        let mut listeners = self.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
    }

    /// The current listeners. Call it without holding the lock: a listener that is woken may add or remove listeners.
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

/// The subscriber: our own events, and the warnings of the client crate. Its other events, and its spans, may reveal a
/// session's password.
struct Emitter;

/// The level at which an event is carried; `None` if it is not. The client crate warns of each attempt to connect, many
/// times a second during an outage. Our own events tell of the outage once, so its warnings are details.
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
        // Ours escape it already, the client crate's do not.
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

    /// All in one test, because a process has only one subscriber.
    #[test]
    fn listeners_hear_what_they_want_and_no_more_than_they_can_take() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let listener = Listener::new(Some(LogLevel::Warn), move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let other = Listener::new(None, || ());

        // Other tests of this process tell the log of their own locks.
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
