//! Connects to a host: resolves its name and tries its addresses in order.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use crate::attempt::ConnectAttempt;
use crate::connect_log::ConnectOutcome;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::srvr_probe;
use crate::tls::Encryption;
use crate::tls_failure;

/// Time for which the client tries one address before it also tries the next one in parallel.
const HEAD_START: Duration = Duration::from_millis(100);

static USED: AtomicBool = AtomicBool::new(false);

/// Returns `true` if any connection was made.
pub(crate) fn used() -> bool {
    USED.load(Ordering::Relaxed)
}

pub(crate) async fn connect(settings: Settings, host: &str, port: u16) -> Result<(Socket, ConnectAttempt)> {
    let mut attempt = ConnectAttempt::begin(settings, host, port).await?;
    if attempt.settings().connect_log().needs_probe(attempt.server()) {
        let limit = attempt.settings().throttle().urgency().question();
        let answer = timeout(limit, ask(attempt.settings(), host, port)).await;
        attempt
            .settings()
            .connect_log()
            .record_probe(attempt.server(), answer.ok().and_then(Result::ok).flatten());
    }
    let (settings, deadline) = (attempt.settings().clone(), attempt.deadline());
    let connecting = open(settings, host, port, |outcome| attempt.set_outcome(outcome));
    let connected = match deadline {
        Some(deadline) => timeout_at(deadline, connecting).await.unwrap_or_else(|_| Err(no_answer())),
        None => connecting.await,
    };
    Ok((connected?, attempt))
}

/// Returns the error of an attempt that is abandoned because another server might reply.
pub(crate) fn no_answer() -> Error {
    Error::new(ErrorKind::TimedOut, "no answer; trying another server")
}

/// Asks a server that closes connections for its status.
async fn ask(settings: &Settings, host: &str, port: u16) -> Result<Option<ConnectOutcome>> {
    let socket = open(settings.clone(), host, port, drop).await?;
    srvr_probe::ask(socket).await
}

/// Sends one of ZooKeeper's four-letter words to a server, on a new connection to the first address
/// that accepts it. Returns an empty text if the server closes the connection without a reply. The
/// server's certificate must be for the name `host`.
///
/// # Errors
/// The errors of the connection, of the TLS handshake, and of the request.
pub async fn four_letter_word(
    encryption: Option<Encryption>,
    host: &str,
    addresses: Vec<SocketAddr>,
    word: &str,
) -> Result<String> {
    let stream = connect_to_any(addresses.into_iter()).await?;
    let socket = match encryption {
        Some(encryption) => {
            Socket::Secured(Box::new(encryption.secure(stream, Encryption::name(host)?).await?))
        }
        None => Socket::Plain(stream),
    };
    srvr_probe::answer(socket, word).await
}

/// Returns the addresses of a host. `host` can also be an address.
///
/// # Errors
/// The resolver's errors.
pub async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    match host.parse::<IpAddr>() {
        Ok(ip) => Ok(vec![SocketAddr::new(ip, port)]),
        Err(_) => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
    }
}

/// Connects, and reports its progress to `set_outcome`.
async fn open(
    settings: Settings,
    host: &str,
    port: u16,
    mut set_outcome: impl FnMut(ConnectOutcome),
) -> Result<Socket> {
    #[cfg(feature = "_simulation")]
    if let Some(connected) = crate::simulated::connect(host, port).await {
        let stream =
            connected.inspect_err(|error| set_outcome(ConnectOutcome::Unreachable(error.to_string())))?;
        USED.store(true, Ordering::Relaxed);
        set_outcome(ConnectOutcome::Mute);
        return Ok(Socket::Simulated(stream));
    }
    let Some(encryption) = settings.encryption() else {
        let stream = reach(host, port, &mut set_outcome).await?;
        set_outcome(ConnectOutcome::Mute);
        return Ok(Socket::Plain(stream));
    };
    let name = Encryption::name(host).inspect_err(|error| set_outcome(unsecured(error)))?;
    let stream = reach(host, port, &mut set_outcome).await?;
    set_outcome(ConnectOutcome::HalfSecured);
    let secured = encryption.secure(stream, name).await;
    let secured = secured.inspect_err(|error| set_outcome(unsecured(error)))?;
    set_outcome(ConnectOutcome::Mute);
    Ok(Socket::Secured(Box::new(secured)))
}

fn unsecured(error: &Error) -> ConnectOutcome {
    ConnectOutcome::Unsecured(tls_failure::why(error), error.to_string())
}

async fn reach(host: &str, port: u16, set_outcome: &mut impl FnMut(ConnectOutcome)) -> Result<TcpStream> {
    let reached = dial(host, port, set_outcome).await;
    reached.inspect_err(|error| {
        let (problem, inner) = (error.to_string(), error.get_ref());
        set_outcome(match error.kind() {
            _ if inner.and_then(|inner| inner.downcast_ref::<UnknownHost>()).is_some() => {
                ConnectOutcome::UnknownHost(problem)
            }
            ErrorKind::ConnectionRefused => ConnectOutcome::Refused(problem),
            _ => ConnectOutcome::Unreachable(problem),
        });
    })
}

/// The error of a name without an address.
#[derive(Debug)]
struct UnknownHost(String);

impl fmt::Display for UnknownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownHost {}

/// Connects to the first address of `host` that accepts the connection, and reports its progress to
/// `set_outcome`.
pub(crate) async fn dial(
    host: &str,
    port: u16,
    set_outcome: &mut impl FnMut(ConnectOutcome),
) -> Result<TcpStream> {
    let connected = if let Ok(ip) = host.parse::<IpAddr>() {
        // Do not use the resolver for an address, because it would need a thread.
        TcpStream::connect(SocketAddr::new(ip, port)).await
    } else {
        set_outcome(ConnectOutcome::Unresolved);
        let found = tokio::net::lookup_host((host, port)).await;
        let found = found.map_err(|error| Error::new(error.kind(), UnknownHost(error.to_string())))?;
        set_outcome(ConnectOutcome::Silent);
        connect_to_any(found).await
    };
    let stream = connected?;
    USED.store(true, Ordering::Relaxed);
    // Disable Nagle's algorithm, which the client crate leaves enabled. With it, the second of two
    // requests in a row would wait for the TCP acknowledgement of the first, which costs every lock
    // one more round trip.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Tries the addresses of a host in the resolver's order, and returns the first connection. If an
/// address does not reply within [`HEAD_START`], the next one is tried in parallel, because the
/// silent address would otherwise use up the time that the client crate allows for the host.
async fn connect_to_any(mut addresses: impl Iterator<Item = SocketAddr>) -> Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut failure = Error::new(ErrorKind::NotFound, UnknownHost("the name has no address".to_owned()));
    loop {
        let last = match addresses.next() {
            Some(address) => {
                attempts.spawn(TcpStream::connect(address));
                false
            }
            None => true,
        };
        let ended = if last {
            attempts.join_next().await
        } else {
            match tokio::time::timeout(HEAD_START, attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            }
        };
        match ended {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => failure = error,
            Some(Err(error)) => failure = error.into(),
            None => return Err(failure),
        }
    }
}
