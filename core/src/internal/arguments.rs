//! Converts the arguments of a binding to those of this crate. Bindings differ in their unit of
//! time and in the spelling of argument names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::credentials::Identity;
use crate::client::source::ClientSource;
use crate::config::environment::SetByProgram;
use crate::config::size_limits;
use crate::config::timeout::Timeout;
use crate::config::{ClientOptions, LONGEST};
use crate::error::{Error, Result};
use crate::lease::transaction::bad_version;
use crate::lock::options::LockOptions;
use crate::lock::semaphore::Permits;
use crate::queue::Naming;

/// A language with a binding.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// Name of the language. Operators see it in the data of nodes.
    pub name: &'static str,
    /// The duration of a timeout of 1.
    pub unit: Duration,
    /// The spelling of names with several words.
    pub spelling: Spelling,
}

/// The spelling of names with several words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `session_timeout`, as in Rust.
    Snake,
    /// `sessionTimeout`.
    Camel,
}

impl Language {
    /// Returns the error with its argument's name spelled as in this language.
    #[must_use]
    pub fn spell(self, error: Error) -> Error {
        match (self.spelling, error.argument()) {
            (Spelling::Camel, Some(argument)) => {
                let argument = camel(argument);
                error.with_argument(argument)
            }
            _ => error,
        }
    }

    /// Converts a duration. Infinity becomes a very long duration.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument), naming `argument`, for a negative number or
    /// NaN.
    pub fn duration(self, argument: &str, value: f64) -> Result<Duration> {
        if value.is_nan() || value < 0.0 {
            return Err(Error::bad_argument(
                argument,
                format_args!("must not be negative or NaN, but is {value}"),
            ));
        }
        let seconds = value * self.unit.as_secs_f64();
        // A tiny timeout must not become zero, because zero means an acquire that does not wait.
        let smallest = if value > 0.0 { Duration::from_nanos(1) } else { Duration::ZERO };
        Ok(Duration::try_from_secs_f64(seconds).map_or(LONGEST, |time| time.clamp(smallest, LONGEST)))
    }

    /// Converts a timeout. Zero means an acquire that does not wait. `None` or infinity means no
    /// timeout.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a negative number or NaN.
    pub fn timeout(self, timeout: Option<f64>) -> Result<Timeout> {
        let Some(timeout) = timeout else { return Ok(Timeout::Forever) };
        Ok(match self.duration("timeout", timeout)? {
            Duration::ZERO => Timeout::Try,
            LONGEST => Timeout::Forever,
            time => Timeout::For(time),
        })
    }

    /// Converts `blocking` and `timeout`, which have the same meaning as in
    /// `threading.Lock.acquire`. A timeout of -1 means no timeout.
    ///
    /// # Errors
    /// Same as [`timeout`](Self::timeout), and [`BadArgument`](crate::ErrorKind::BadArgument) for a
    /// timeout together with `blocking=False`.
    pub fn blocking(self, blocking: bool, timeout: Option<f64>) -> Result<Timeout> {
        let both = "cannot be given together with blocking=False";
        self.waiting(blocking, unless_minus_one(timeout), both)
    }

    /// Applies a `connect_timeout` to an acquire that does not wait for the lock. It replaces the
    /// client's connect timeout as the time limit for the server's reply.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for zero, a negative number or NaN. Also for
    /// an acquire that waits for the lock, because its timeout covers everything.
    pub fn bounded(self, timeout: Timeout, connect_timeout: Option<f64>) -> Result<Timeout> {
        let Some(value) = connect_timeout else { return Ok(timeout) };
        let bad = |problem: &str| Err(Error::bad_argument("connect_timeout", problem));
        match (timeout, self.duration("connect_timeout", value)?) {
            (_, Duration::ZERO) => bad("must be more than zero"),
            (Timeout::Try, time) => Ok(Timeout::TryWithin(time)),
            _ => bad(
                "is only for an acquire that does not wait; if an acquire waits, its timeout also limits the time \
                 to connect",
            ),
        }
    }

    /// Converts the arguments `wait` and `timeout` of a release to the time limit for its
    /// acknowledgement.
    ///
    /// # Errors
    /// Same as [`timeout`](Self::timeout), and [`BadArgument`](crate::ErrorKind::BadArgument) if a
    /// timeout is given although the release does not wait.
    pub fn releasing(self, wait: bool, timeout: Option<f64>) -> Result<Timeout> {
        self.waiting(wait, timeout, "cannot be given to a release that does not wait")
    }

    fn waiting(self, waits: bool, timeout: Option<f64>, both: &str) -> Result<Timeout> {
        match (waits, timeout) {
            (true, timeout) => self.timeout(timeout),
            (false, None) => Ok(Timeout::Try),
            (false, Some(_)) => Err(Error::bad_argument("timeout", both)),
        }
    }

    /// Returns the options of a client. The environment or the default replaces each option that is
    /// `None`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument), naming the argument.
    pub fn client_options(
        self,
        hosts: Option<&str>,
        session_timeout: Option<f64>,
        connect_timeout: Option<f64>,
        label: Option<String>,
        max_frame: Option<impl Count>,
        identity: Identity,
    ) -> Result<ClientOptions> {
        let set = SetByProgram { session_timeout: session_timeout.is_some(), ..identity.set() };
        let options = ClientOptions::new(hosts)?.label(label)?.language(self.name);
        let mut options = options.with_environment(set)?;
        if let Some(timeout) = session_timeout {
            options = options.session_timeout(self.duration("session_timeout", timeout)?)?;
        }
        if let Some(timeout) = connect_timeout {
            options = options.connect_timeout(self.duration("connect_timeout", timeout)?)?;
        }
        if let Some(bytes) = max_frame {
            // A negative or fractional number becomes 0, which `max_frame` rejects.
            options = options.max_frame(bytes.to_count().unwrap_or(0))?;
        }
        identity.apply(options)
    }

    /// Returns the options that all kinds of locks share.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument), naming the argument.
    pub fn lock_options(self, given: GivenOptions) -> Result<LockOptions> {
        let mut options = LockOptions::default();
        if let Some(reentrant) = given.reentrant {
            options = options.reentrant(reentrant);
        }
        if let Some(label) = given.label {
            options = options.label(label);
        }
        if let Some(naming) = given.naming {
            options = options.naming(parse_naming(&naming)?);
        }
        if let Some(time) = given.max_hold {
            options = options.max_hold(self.duration("max_hold", time)?);
        }
        if let Some(time) = given.grace {
            options = options.grace(self.duration("grace", time)?);
        }
        if let Some(waiters) = given.max_waiters {
            let problem = || format!("{waiters} is not a valid number of waiters");
            let waiters = waiters.to_count().ok_or_else(|| Error::bad_argument("max_waiters", problem()))?;
            options = options.max_waiters(waiters);
        }
        if let Some(holds) = given.cohort {
            let problem = || format!("{holds} is not a valid number of holds");
            options =
                options.cohort(holds.to_count().ok_or_else(|| Error::bad_argument("cohort", problem()))?);
        }
        if let Some(time) = given.linger {
            options = options.linger(self.duration("linger", time)?);
        }
        Ok(options)
    }

    /// Returns the process's shared client for `hosts`, with the options of the environment. If
    /// `hosts` is `None`, the client uses the default hosts of [`ClientOptions::new`].
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for malformed hosts.
    pub fn shared_client(self, hosts: Option<&str>) -> Result<ClientSource> {
        let options = ClientOptions::from_env(hosts)?.language(self.name);
        options.check()?;
        Ok(options.into())
    }

    /// Returns the process's shared client for `hosts` with these options.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for malformed hosts.
    pub fn shared_client_with(self, hosts: Option<&str>, options: &ClientOptions) -> Result<ClientSource> {
        Ok(options.clone().at(hosts)?.into())
    }
}

/// Converts a Python timeout: -1 means no timeout.
#[must_use]
pub fn unless_minus_one(timeout: Option<f64>) -> Option<f64> {
    #[expect(clippy::float_cmp, reason = "exactly -1 means that there is no time-out")]
    timeout.filter(|timeout| *timeout != -1.0)
}

/// Converts a timeout for an operation other than an acquire. `None` means no timeout.
#[must_use]
pub fn limit(timeout: Timeout) -> Option<Duration> {
    match timeout {
        Timeout::Forever => None,
        Timeout::For(time) => Some(time),
        Timeout::Try | Timeout::TryWithin(_) => Some(Duration::ZERO),
    }
}

/// Converts `connect_timeout` to `connectTimeout`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    camel
}

/// The options of a lock, as a program in another language passes them. For an option that is
/// `None`, the default of [`LockOptions`] applies.
#[derive(Clone, Debug, Default)]
pub struct GivenOptions {
    /// `true` if an owner that holds the lock can acquire it again.
    pub reentrant: Option<bool>,
    /// Name of this contender.
    pub label: Option<String>,
    /// Name of the node naming scheme.
    pub naming: Option<String>,
    /// Longest hold, in the language's unit of time.
    pub max_hold: Option<f64>,
    /// The option `grace`, in the language's unit of time: the time between the report that a lease
    /// is lost and the earliest end of the session.
    pub grace: Option<f64>,
    /// Maximum number of waiters ahead of a new contender. If there are more, the contender is
    /// refused.
    pub max_waiters: Option<f64>,
    /// Maximum number of consecutive holds through one node when a client hands the lock to its own
    /// waiters.
    pub cohort: Option<f64>,
    /// Time for which a node is kept after its lock was released, in the language's unit of time.
    pub linger: Option<f64>,
}

/// The value of an option as a program in another language gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GivenValue<'a> {
    /// A Boolean value.
    Flag(bool),
    /// A text.
    Text(&'a str),
    /// A number, in the language's unit.
    Number(f64),
    /// A whole number.
    Count(u32),
}

impl GivenOptions {
    /// Returns the given options with their names.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, GivenValue<'_>)> {
        let Self { reentrant, label, naming, max_hold, grace, max_waiters, cohort, linger } = self;
        let all = [
            ("reentrant", reentrant.map(GivenValue::Flag)),
            ("label", label.as_deref().map(GivenValue::Text)),
            ("naming", naming.as_deref().map(GivenValue::Text)),
            ("max_hold", max_hold.map(GivenValue::Number)),
            ("grace", grace.map(GivenValue::Number)),
            ("max_waiters", max_waiters.and_then(Count::to_count).map(GivenValue::Count)),
            ("cohort", cohort.and_then(Count::to_count).map(GivenValue::Count)),
            ("linger", linger.map(GivenValue::Number)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

fn parse_naming(name: &str) -> Result<Naming> {
    match name {
        "curator" => Ok(Naming::Curator),
        "kazoo" => Ok(Naming::Kazoo),
        _ => Err(Error::bad_argument("naming", "must be 'curator' or 'kazoo'")),
    }
}

/// A number that can be a count.
pub trait Count: Copy + fmt::Display {
    /// Returns the number as a `u32` if it is whole and within range.
    fn to_count(self) -> Option<u32>;
}

impl Count for i64 {
    fn to_count(self) -> Option<u32> {
        self.try_into().ok()
    }
}

impl Count for f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number in the range"
    )]
    fn to_count(self) -> Option<u32> {
        (self.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&self)).then_some(self as u32)
    }
}

/// Checks and converts the name of an owner.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `owner`, for a name that is empty or
/// exceeds the length limit of labels.
pub fn parse_owner_name(name: Option<String>) -> Result<Option<Arc<str>>> {
    let Some(name) = name else { return Ok(None) };
    if name.is_empty() {
        return Err(Error::bad_argument("owner", "must not be empty"));
    }
    size_limits::check("owner", name.len(), size_limits::LABEL)?;
    Ok(Some(name.into()))
}

/// Converts a number of permits. Rejects every number that does not fit in a `u32`.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `argument`.
pub fn parse_count(argument: &str, number: impl Count) -> Result<u32> {
    let problem = || Error::bad_argument(argument, format_args!("{number} is not a valid number of permits"));
    number.to_count().ok_or_else(problem)
}

/// Converts the number of permits of a semaphore, which is either a fixed number or the path of a
/// node that contains the number.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument) if neither or both are given, or for a number
/// that is out of range.
pub fn parse_permits(number: Option<impl Count>, shared_count: Option<String>) -> Result<Permits> {
    match (number, shared_count) {
        (Some(number), None) => Ok(Permits::Fixed(parse_count("permits", number)?)),
        (None, Some(path)) => Ok(Permits::SharedCount(path)),
        _ => Err(Error::bad_argument("permits", "give either a number or the path of a shared count")),
    }
}

/// Converts the expected version of a node for a write. Rejects a number that is not whole or is
/// out of range. A rounded number could match another version than the program expects.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument).
pub fn parse_version(number: impl Count) -> Result<i32> {
    number.to_count().and_then(|version| version.try_into().ok()).ok_or_else(|| bad_version(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: Language = Language { name: "s", unit: Duration::from_secs(1), spelling: Spelling::Snake };
    const MILLISECONDS: Language =
        Language { name: "ms", unit: Duration::from_millis(1), spelling: Spelling::Camel };

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.code(), "BAD_ARGUMENT");
        error.to_string()
    }

    #[test]
    fn time_outs_have_three_meanings() {
        let timeout = |timeout| SECONDS.timeout(Some(timeout));
        assert_eq!(SECONDS.timeout(None).unwrap(), Timeout::Forever);
        assert_eq!(timeout(0.0).unwrap(), Timeout::Try);
        assert_eq!(timeout(-0.0).unwrap(), Timeout::Try);
        assert_eq!(timeout(f64::INFINITY).unwrap(), Timeout::Forever);
        assert_eq!(timeout(1.5).unwrap(), Timeout::For(Duration::from_millis(1500)));
        assert_eq!(timeout(1e-300).unwrap(), Timeout::For(Duration::from_nanos(1)));
        assert_eq!(MILLISECONDS.timeout(Some(1.5)).unwrap(), Timeout::For(Duration::from_micros(1500)));
        for bad in [-1.0, -1e-9, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(message(timeout(bad)), format!("timeout: must not be negative or NaN, but is {bad}"));
        }
    }

    #[test]
    fn no_blocking_is_a_try_and_takes_no_time_out() {
        assert_eq!(SECONDS.blocking(true, None).unwrap(), Timeout::Forever);
        assert_eq!(SECONDS.blocking(true, Some(-1.0)).unwrap(), Timeout::Forever);
        assert_eq!(SECONDS.blocking(true, Some(0.0)).unwrap(), Timeout::Try);
        assert_eq!(SECONDS.blocking(true, Some(2.0)).unwrap(), Timeout::For(Duration::from_secs(2)));
        assert_eq!(SECONDS.blocking(false, None).unwrap(), Timeout::Try);
        assert_eq!(SECONDS.blocking(false, Some(-1.0)).unwrap(), Timeout::Try);
        assert!(message(SECONDS.blocking(false, Some(0.0))).starts_with("timeout: "));
        assert!(message(SECONDS.blocking(true, Some(-2.0))).starts_with("timeout: "));
    }

    #[test]
    fn only_a_try_has_a_bound_of_its_own() {
        let second = Duration::from_secs(1);
        assert_eq!(SECONDS.bounded(Timeout::Try, Some(1.0)).unwrap(), Timeout::TryWithin(second));
        assert_eq!(SECONDS.bounded(Timeout::Try, None).unwrap(), Timeout::Try);
        assert_eq!(SECONDS.bounded(Timeout::Forever, None).unwrap(), Timeout::Forever);
        for (timeout, bound) in
            [(Timeout::Forever, 1.0), (Timeout::For(second), 1.0), (Timeout::Try, 0.0), (Timeout::Try, -1.0)]
        {
            assert!(message(SECONDS.bounded(timeout, Some(bound))).starts_with("connect_timeout: "));
        }
    }

    #[test]
    fn a_release_that_does_not_wait_takes_no_time_out() {
        assert_eq!(SECONDS.releasing(true, None).unwrap(), Timeout::Forever);
        assert_eq!(SECONDS.releasing(true, Some(2.0)).unwrap(), Timeout::For(Duration::from_secs(2)));
        assert_eq!(SECONDS.releasing(true, Some(0.0)).unwrap(), Timeout::Try);
        assert_eq!(SECONDS.releasing(false, None).unwrap(), Timeout::Try);
        assert!(message(SECONDS.releasing(false, Some(1.0))).starts_with("timeout: "));
        assert!(message(SECONDS.releasing(true, Some(-1.0))).starts_with("timeout: "));
        assert_eq!([Some(-1.0), Some(0.0), None].map(unless_minus_one), [None, Some(0.0), None]);
    }

    #[test]
    fn a_limit_is_how_long_to_wait() {
        let second = Duration::from_secs(1);
        assert_eq!(
            [Timeout::Forever, Timeout::For(second), Timeout::Try].map(limit),
            [None, Some(second), Some(Duration::ZERO)]
        );
    }

    #[test]
    fn options_are_checked_in_the_language_s_units_and_spelled_in_its_way() {
        let connect = |language: Language, timeout| {
            let identity = Identity::default();
            let options =
                language.client_options(Some("a"), Some(timeout), None, None, None::<f64>, identity);
            options.map_err(|error| language.spell(error))
        };
        let options = connect(MILLISECONDS, 1500.0).unwrap();
        assert_eq!(options.session_timeout, Duration::from_millis(1500));
        assert_eq!((options.language, options.hosts.servers.as_str()), ("ms", "a:2181"));
        assert!(message(connect(MILLISECONDS, 0.0)).starts_with("sessionTimeout: must be between"));
        assert!(message(connect(MILLISECONDS, f64::NAN)).starts_with("sessionTimeout: must not be"));
        assert!(message(connect(SECONDS, 0.0)).starts_with("session_timeout: must be between"));
    }

    #[test]
    fn errors_of_no_argument_keep_their_words() {
        let error = MILLISECONDS.spell(Error::client_closed());
        assert_eq!(error.to_string(), Error::client_closed().to_string());
    }

    #[test]
    fn words_are_joined() {
        assert_eq!(["label", "shared_count", "a_b_c"].map(camel), ["label", "sharedCount", "aBC"]);
    }

    #[test]
    fn a_name_of_an_owner_is_neither_empty_nor_long() {
        assert_eq!(parse_owner_name(None).unwrap(), None);
        assert_eq!(parse_owner_name(Some("a".into())).unwrap(), Some("a".into()));
        for bad in [String::new(), "x".repeat(1025)] {
            assert_eq!(parse_owner_name(Some(bad)).unwrap_err().argument(), Some("owner"));
        }
    }

    #[test]
    fn there_are_two_namings() {
        assert_eq!(parse_naming("curator").unwrap(), Naming::Curator);
        assert_eq!(parse_naming("kazoo").unwrap(), Naming::Kazoo);
        assert_eq!(parse_naming("Curator").unwrap_err().to_string(), "naming: must be 'curator' or 'kazoo'");
    }

    #[test]
    fn counts_are_whole_numbers_in_range() {
        assert_eq!(parse_count("count", 3_i64).unwrap(), 3);
        assert_eq!(parse_count("count", 3.0).unwrap(), 3);
        assert_eq!(parse_count("count", f64::from(u32::MAX)).unwrap(), u32::MAX);
        assert_eq!(
            parse_count("count", -1_i64).unwrap_err().to_string(),
            "count: -1 is not a valid number of permits"
        );
        assert!(parse_count("count", i64::from(u32::MAX) + 1).is_err());
        for bad in [-1.0, 0.5, f64::from(u32::MAX) + 1.0, f64::INFINITY, f64::NAN] {
            assert_eq!(parse_count("count", bad).unwrap_err().argument(), Some("count"), "{bad}");
        }
    }

    #[test]
    fn a_number_or_a_path_is_given_and_not_both() {
        let path = || Some("/n".to_owned());
        assert_eq!(parse_permits(Some(2_i64), None).unwrap(), Permits::Fixed(2));
        assert_eq!(parse_permits(None::<f64>, path()).unwrap(), Permits::SharedCount("/n".into()));
        for (number, path) in [(None, None), (Some(2.0), path())] {
            assert_eq!(parse_permits(number, path).unwrap_err().argument(), Some("permits"));
        }
    }

    #[test]
    fn versions_are_whole_numbers_that_a_server_counts_to() {
        for (number, version) in [(0.0, 0), (-0.0, 0), (7.0, 7), (2_147_483_647.0, i32::MAX)] {
            assert_eq!(parse_version(number).unwrap(), version);
        }
        assert_eq!(parse_version(i64::from(i32::MAX)).unwrap(), i32::MAX);
        for bad in [-1.0, 0.9, 2_147_483_648.0, 4_294_967_296.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let error = parse_version(bad).unwrap_err();
            assert_eq!((error.code(), error.argument()), ("BAD_ARGUMENT", Some("version")), "{bad}");
            assert!(error.to_string().contains(&bad.to_string()), "{error}");
        }
        for bad in [-1_i64, 1 << 31, 1 << 32] {
            assert!(parse_version(bad).is_err(), "{bad}");
        }
    }
}
