//! Reports on servers that a client could not use, one for each server.

use std::fmt;
use std::sync::Arc;

use zklock_transport::{ConnectOutcome, Distrust, ServerAttempt};

use crate::error::escape;
use crate::error::escape::Escaped;

/// The kind of problem at a server that the client could not use.
///
/// ```no_run
/// # async fn example() {
/// use zklock::{Client, ServerProblem};
///
/// if let Err(error) = Client::connect("zk1,zk2,zk3").await {
///     if error.servers().iter().any(|server| server.problem == ServerProblem::CertificateExpired) {
///         println!("renew the certificates: {error}");
///     }
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerProblem {
    /// The host name has no address, or the resolver did not reply.
    UnknownHost,
    /// The host refused the connection, because no process listens on the port.
    Refused,
    /// There is no route to the host, or the connection failed for another reason.
    Unreachable,
    /// The server did not accept the connection in time, or sent no reply on it.
    Silent,
    /// The server closed the connection without a reply.
    Closed,
    /// The server serves no requests, because it has no quorum or has not started yet.
    NotServing,
    /// The server has lost its quorum and serves only reads. The client cannot acquire a lock
    /// through such a server.
    ReadOnly,
    /// The reply does not follow ZooKeeper's protocol.
    NotZooKeeper,
    /// The certificate is for a different name than the one in the connect string.
    CertificateName,
    /// The certificate has expired or is not valid yet.
    CertificateExpired,
    /// The certificate is not signed by an authority that the client trusts.
    CertificateAuthority,
    /// The TLS handshake failed for another reason. For example, the server does not use TLS on
    /// this port, or does not accept the client's certificate.
    Tls,
    /// The server replied, but the client had no working session when the time limit was reached.
    Answered,
    /// The client did not try this server, because the attempts at the other servers took all the
    /// time.
    NotTried,
}

impl ServerProblem {
    /// Returns the problem in words, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownHost => "unknown host",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Closed => "closed",
            Self::NotServing => "not serving",
            Self::ReadOnly => "read-only",
            Self::NotZooKeeper => "not zookeeper",
            Self::CertificateName => "certificate name",
            Self::CertificateExpired => "certificate expired",
            Self::CertificateAuthority => "certificate authority",
            Self::Tls => "tls",
            Self::Answered => "answered",
            Self::NotTried => "not tried",
        }
    }

    fn of(outcome: &ConnectOutcome) -> Self {
        match outcome {
            ConnectOutcome::Unresolved | ConnectOutcome::UnknownHost(_) => Self::UnknownHost,
            ConnectOutcome::Refused(_) => Self::Refused,
            ConnectOutcome::Silent | ConnectOutcome::HalfSecured | ConnectOutcome::Mute => Self::Silent,
            ConnectOutcome::Unsecured(Distrust::Name, _) => Self::CertificateName,
            ConnectOutcome::Unsecured(Distrust::Expired, _) => Self::CertificateExpired,
            ConnectOutcome::Unsecured(Distrust::Authority, _) => Self::CertificateAuthority,
            ConnectOutcome::Unsecured(..) => Self::Tls,
            ConnectOutcome::Closed => Self::Closed,
            ConnectOutcome::NotServing => Self::NotServing,
            ConnectOutcome::ReadOnly => Self::ReadOnly,
            ConnectOutcome::Malformed(_) => Self::NotZooKeeper,
            ConnectOutcome::Answered => Self::Answered,
            _ => Self::Unreachable,
        }
    }
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The problem at one server when the client last tried it.
///
/// ```no_run
/// # async fn example() {
/// if let Err(error) = zklock::Client::connect("zk1,zk2,zk3").await {
///     for report in error.servers() {
///         println!("{}: {} ({})", report.server, report.problem, report.detail);
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{server} {detail}")]
#[non_exhaustive]
pub struct ServerReport {
    /// The server, as `host:port`.
    pub server: String,
    /// The kind of problem, for programs.
    pub problem: ServerProblem,
    /// Description of the problem: the message of the operating system, of TLS, or of the server.
    /// It is a predicate, so that a message can put the server's name before it, for example
    /// "zk1:2181 refused the connection".
    pub detail: String,
}

impl ServerReport {
    /// Returns a report for each server in `servers` (`host:port`, separated by commas), in the
    /// same order.
    pub(crate) fn all(servers: &str, entries: &[ServerAttempt]) -> Vec<Self> {
        servers.split(',').map(|server| Self::new(server, entries)).collect()
    }

    fn new(server: &str, entries: &[ServerAttempt]) -> Self {
        let is_of = |entry: &&ServerAttempt| {
            let (host, port) = server.rsplit_once(':').unwrap_or((server, ""));
            entry.host == host.trim_matches(['[', ']']) && entry.port.to_string() == port
        };
        let (problem, detail) = match entries.iter().find(is_of).map(|entry| &entry.outcome) {
            None => (ServerProblem::NotTried, "was not tried in that time".to_owned()),
            Some(ConnectOutcome::Answered) => {
                (ServerProblem::Answered, "answered at first, but then stopped answering".to_owned())
            }
            Some(outcome) => (ServerProblem::of(outcome), outcome.to_string()),
        };
        let detail = escape::message(detail.into()).into_owned();
        Self { server: Escaped(server).to_string(), problem, detail }
    }
}

/// The reports of all servers, as the cause of an error.
#[derive(Clone, Debug)]
pub(crate) struct Servers(pub(crate) Arc<[ServerReport]>);

impl From<Vec<ServerReport>> for Servers {
    fn from(reports: Vec<ServerReport>) -> Self {
        Self(reports.into())
    }
}

impl Servers {
    /// Returns the source of the error: a single report, or the list of all reports.
    pub(crate) fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            [] => None,
            [one] => Some(one),
            _ => Some(self),
        }
    }
}

/// Names servers with the same problem together.
impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
        for ServerReport { server, detail, .. } in &*self.0 {
            match told.iter_mut().find(|(other, _)| other == detail) {
                Some((_, servers)) => servers.push(server),
                None => told.push((detail, vec![server])),
            }
        }
        for (index, (detail, servers)) in told.iter().enumerate() {
            write!(f, "{}{} {detail}", if index == 0 { "" } else { "; " }, servers.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Servers {}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, port: u16, outcome: ConnectOutcome) -> ServerAttempt {
        ServerAttempt { host: host.into(), port, outcome }
    }

    fn refused() -> ConnectOutcome {
        ConnectOutcome::Refused("no".into())
    }

    #[test]
    fn every_server_is_reported_in_the_order_of_the_hosts() {
        let entries = [
            entry(
                "::1",
                1,
                ConnectOutcome::Unsecured(Distrust::Expired, "the server's certificate has expired".into()),
            ),
            entry("b", 2, refused()),
            entry("b", 3, ConnectOutcome::Answered),
        ];
        let reports = ServerReport::all("b:2,[::1]:1,c:4,b:3", &entries);
        let problems: Vec<_> =
            reports.iter().map(|report| (report.server.as_str(), report.problem)).collect();
        let expected = [
            ("b:2", ServerProblem::Refused),
            ("[::1]:1", ServerProblem::CertificateExpired),
            ("c:4", ServerProblem::NotTried),
            ("b:3", ServerProblem::Answered),
        ];
        assert_eq!(problems, expected);
        assert_eq!(reports[0].to_string(), "b:2 refused the connection: no");
    }

    #[test]
    fn what_happened_to_several_is_said_once() {
        let entries =
            [entry("a", 1, refused()), entry("b", 1, ConnectOutcome::Mute), entry("c", 1, refused())];
        let servers = Servers::from(ServerReport::all("a:1,b:1,c:1", &entries));
        assert_eq!(
            servers.to_string(),
            "a:1, c:1 refused the connection: no; b:1 accepted a connection, but did not answer"
        );
    }

    #[test]
    fn the_cause_is_the_one_server_or_all_of_them() {
        let cause = |servers: &str| {
            let servers = Servers::from(ServerReport::all(servers, &[entry("a", 1, refused())]));
            servers
                .cause()
                .map(|cause| (cause.is::<ServerReport>(), cause.to_string(), cause.source().is_none()))
        };
        assert_eq!(cause("a:1"), Some((true, "a:1 refused the connection: no".to_owned(), true)));
        let both = "a:1 refused the connection: no; b:1 was not tried in that time";
        assert_eq!(cause("a:1,b:1"), Some((false, both.to_owned(), true)));
        assert!(Servers::from(Vec::new()).cause().is_none());
    }
}
