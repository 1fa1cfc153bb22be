//! How a connection comes to a host: its addresses, one after the other.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::attempt::Attempt;
use crate::diary::Outcome;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::tls::Encryption;

/// For how long an address is tried alone.
const HEAD_START: Duration = Duration::from_millis(100);

static USED: AtomicBool = AtomicBool::new(false);

/// Whether any connection was made.
pub(crate) fn used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// Connects to a server as the settings say, once it may be connected to again.
pub(crate) async fn connect(settings: Settings, host: &str, port: u16) -> Result<(Socket, Attempt)> {
    let mut attempt = Attempt::begin(settings, host, port).await;
    let Some(encryption) = attempt.settings().encryption() else {
        let stream = reach(&mut attempt, host, port).await?;
        attempt.is_now(Outcome::Mute);
        return Ok((Socket::Plain(stream), attempt));
    };
    let name = Encryption::name(host).inspect_err(|error| attempt.is_now(unsecured(error)))?;
    let stream = reach(&mut attempt, host, port).await?;
    attempt.is_now(Outcome::HalfSecured);
    let secured = encryption.secure(stream, name).await;
    let secured = secured.inspect_err(|error| attempt.is_now(unsecured(error)))?;
    attempt.is_now(Outcome::Mute);
    Ok((Socket::Secured(Box::new(secured)), attempt))
}

fn unsecured(error: &Error) -> Outcome {
    Outcome::Unsecured(error.to_string())
}

async fn reach(attempt: &mut Attempt, host: &str, port: u16) -> Result<TcpStream> {
    let reached = dial(host, port).await;
    reached.inspect_err(|error| attempt.is_now(Outcome::Unreachable(error.to_string())))
}

/// Connects to the first address of `host` that answers.
pub(crate) async fn dial(host: &str, port: u16) -> Result<TcpStream> {
    let connected = match host.parse::<IpAddr>() {
        // An address needs no resolver, and a resolver needs a thread.
        Ok(ip) => TcpStream::connect(SocketAddr::new(ip, port)).await,
        Err(_) => connect_to_any(host, port).await,
    };
    let stream = connected?;
    USED.store(true, Ordering::Relaxed);
    // The client crate never does, and with Nagle's algorithm the second of two requests sent back to back waits for
    // the acknowledgement of the first: one more round trip for every lock.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects to an address of a host, in the resolver's order. One that does not answer keeps the next from being tried
/// only for a moment: otherwise it would use up the client crate's time for the host, every time.
async fn connect_to_any(host: &str, port: u16) -> Result<TcpStream> {
    let mut addresses = tokio::net::lookup_host((host, port)).await?;
    let mut attempts = JoinSet::new();
    let mut failure = Error::new(ErrorKind::NotFound, "the name has no address");
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
