//! Derives the advice from the findings. Sends no request.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use zklock::internal::Escaped;

use super::four_letter_words::Answer;

/// One line of the diagnosis.
#[derive(Debug)]
pub(crate) struct Finding {
    /// `ok`, `note` or `CHANGE`.
    mark: &'static str,
    what: String,
    next: Option<String>,
    /// For a deadlock: its owners as lines of text and as JSON values.
    owners: Option<(Vec<String>, Vec<Value>)>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6}  {}", self.mark, self.what)?;
        for line in self.owners.iter().flat_map(|(lines, _)| lines) {
            write!(f, "\n        {line}")?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n        -> {next}")?;
        }
        Ok(())
    }
}

impl Finding {
    pub(crate) fn good(what: String) -> Self {
        Self { mark: "ok", what, next: None, owners: None }
    }

    pub(crate) fn note(what: &str, next: &str) -> Self {
        Self { mark: "note", what: what.to_owned(), next: Some(next.to_owned()), owners: None }
    }

    pub(crate) fn change(what: String, next: &str) -> Self {
        Self { mark: "CHANGE", what, next: Some(next.to_owned()), owners: None }
    }

    /// Adds the owners of a deadlock as text and as JSON.
    pub(crate) fn with_owners(self, lines: Vec<String>, owners: Vec<Value>) -> Self {
        Self { owners: Some((lines, owners)), ..self }
    }

    pub(crate) fn is_a_problem(&self) -> bool {
        self.mark == "CHANGE"
    }

    /// Returns the finding as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut finding =
            json!({ "verdict": self.mark.to_lowercase(), "finding": self.what, "next": self.next });
        if let Some((_, owners)) = &self.owners {
            finding["owners"] = owners.as_slice().into();
        }
        finding
    }
}

/// Compares the granted session timeout with the requested one.
pub(crate) fn advise_session(asked: Duration, granted: Duration) -> Finding {
    if asked == granted {
        return Finding::good(format!("the session timeout is {granted:?}, as requested"));
    }
    let changed = |bound: &str, next: &str| {
        let what = format!(
            "the session timeout is {granted:?}, not {asked:?} as requested, because of the servers' {bound}"
        );
        Finding::change(what, next)
    };
    if granted > asked {
        // By default, the servers grant a session timeout of at least two ticks. The guarantees of
        // a lock need at least four.
        let next =
            format!("request {:?}, or set a shorter tickTime on every server", granted.saturating_mul(2));
        changed("minSessionTimeout (2 ticks by default)", &next)
    } else {
        let next = format!("request {granted:?}, or raise maxSessionTimeout on every server");
        changed("maxSessionTimeout (20 ticks by default)", &next)
    }
}

/// Checks whether the latency is low enough for heartbeats. The client sends a heartbeat every
/// sixth of the session timeout, and the session survives two failed heartbeats.
pub(crate) fn advise_latency(read: Duration, session_timeout: Duration) -> Finding {
    let what = format!("a read takes {:.2} ms", read.as_secs_f64() * 1000.0);
    if read > session_timeout / 20 {
        return Finding::change(
            format!(
                "{what}, which is more than 5% of the session timeout: lock terms are shorter than necessary"
            ),
            "request a longer session timeout, or reduce the network distance between clients and servers",
        );
    }
    Finding::good(what)
}

/// Checks the version of the server. Some releases can lose transactions (ZOOKEEPER-4785,
/// ZOOKEEPER-4925), and some servers are not Apache ZooKeeper.
pub(crate) fn advise_version(server: &str, srvr: &str) -> Finding {
    if let Some(version) = srvr.lines().find_map(|line| line.strip_prefix("ClickHouse Keeper version: ")) {
        return Finding::change(
            format!(
                "{server} runs ClickHouse Keeper {}, which does not restore sessions: every reconnection loses all \
                 leases",
                Escaped(version)
            ),
            "use Apache ZooKeeper, or read about the limitations: docs/interop.md, section With ClickHouse Keeper",
        );
    }
    let line = srvr.lines().find_map(|line| line.split_once("version: ")).map(|(_, version)| version);
    let version = line.and_then(|version| version.split(['-', ',', ' ']).next()).unwrap_or_default();
    let mode = srvr.lines().find_map(|line| line.strip_prefix("Mode: ")).unwrap_or("unknown mode");
    let numbers: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
    let what = format!("{server} runs ZooKeeper {} ({})", Escaped(version), Escaped(mode));
    match numbers.first_chunk::<3>() {
        Some(version) if *version >= [3, 9, 4] => Finding::good(what),
        Some([3, 8, patch]) if *patch >= 5 => {
            Finding::note(&what, "this release is supported, but 3.9.4 or later is recommended")
        }
        Some([3, 5..=9, _]) => {
            Finding::change(what, "releases before 3.8.5 and 3.9.4 can lose transactions: use 3.9.4 or later")
        }
        _ => Finding::note(&what, "zklock is tested with Apache ZooKeeper 3.9"),
    }
}

/// Warns of a standalone server. If it is the only server, it is a single point of failure. If it
/// is one of several, it does not share its locks with the others.
pub(crate) fn advise_mode(server: &str, srvr: &str, others: usize) -> Option<Finding> {
    let alone = srvr.lines().any(|line| line == "Mode: standalone");
    let next = "in production, run three or five servers and list all of them in --hosts";
    match (alone, others) {
        (true, 0) => Some(Finding::note(
            &format!("{server} is a standalone server: if it fails, no lock can be acquired"),
            next,
        )),
        (true, _) => Some(Finding::change(
            format!("{server} is a standalone server: it shares no locks with the other servers in --hosts"),
            "list only servers of the same ensemble in --hosts",
        )),
        (false, _) => None,
    }
}

/// Returns a note if a server accepts only a few connections from one host. Each process that uses
/// a lock needs one connection.
pub(crate) fn advise_connections(server: &str, conf: &str) -> Option<Finding> {
    let most: u32 =
        conf.lines().find_map(|line| line.strip_prefix("maxClientCnxns="))?.trim().parse().ok()?;
    (1..FEW).contains(&most).then(|| {
        Finding::note(
            &format!(
                "{server} accepts only {most} connections per host, and each process with a client needs one"
            ),
            "if more jobs on one host can wait at the same time, raise maxClientCnxns on every server",
        )
    })
}

/// Minimum number of connections from one host that a server should accept. With fewer, a host with
/// many jobs can run out of connections.
const FEW: u32 = 100;

/// Reports the version and the transport of this program.
pub(crate) fn advise_build(version: &str, transport: Option<&str>) -> Finding {
    let transport = transport.unwrap_or("unknown");
    let what = format!("zklock {version}, transport {transport}");
    if transport == "stock" {
        return Finding::change(
            format!("{what}: it needs more round trips and does not support TLS"),
            "add the two [patch.crates-io] lines from zklock's README, and build again",
        );
    }
    Finding::good(what)
}

/// Explains why the lock could not be acquired.
pub(crate) fn advise_refusal(path: &str, error: &zklock::Error) -> Finding {
    let what = format!("cannot acquire the lock {}: {error}", Escaped(path));
    match error.kind() {
        zklock::ErrorKind::AuthFailed => Finding::change(
            what,
            "use --auth-file with credentials that its access control list permits, or ask its owner to change the \
             list (zkCli.sh: getAcl, setAcl)",
        ),
        zklock::ErrorKind::LockTimeout if error.timeout_reason() == Some(zklock::TimeoutReason::Taken) => {
            Finding::note(&what, "another client holds it: use a separate lock for `zklock doctor`")
        }
        _ => Finding::change(what, "fix the problem that the error describes"),
    }
}

/// Checks that the session timeout is at least four ticks. Shorter timeouts have no guarantee.
pub(crate) fn advise_tick(server: &str, conf: &str, session_timeout: Duration) -> Option<Finding> {
    let tick = conf.lines().find_map(|line| line.strip_prefix("tickTime="))?.trim().parse().ok()?;
    let tick = Duration::from_millis(tick);
    let what = format!("{server} has a tickTime of {tick:?}");
    if session_timeout >= tick.saturating_mul(4) {
        return Some(Finding::good(what));
    }
    Some(too_few_ticks(&what, session_timeout, tick))
}

fn too_few_ticks(what: &str, session_timeout: Duration, tick: Duration) -> Finding {
    Finding::change(
        format!(
            "{what}: the session timeout of {session_timeout:?} is shorter than four ticks, so two clients can \
             hold the same lock"
        ),
        &format!("request at least {:?}, or set a shorter tickTime on every server", tick.saturating_mul(4)),
    )
}

/// Returns half of a session timeout in whole milliseconds.
pub(crate) fn half_of(session_timeout: Duration) -> Duration {
    let millis = u64::try_from(session_timeout.as_millis() / 2).unwrap_or(u64::MAX);
    Duration::from_millis(millis.max(1))
}

/// Infers the tick of servers that do not answer `conf`. The caller has requested half of
/// `session_timeout` from these servers. `half` is the timeout that they granted: the requested
/// one, or their minimum of two ticks if that is longer. It is `None` if the granted timeout is
/// unknown.
pub(crate) fn advise_unknown_tick(
    servers: &str,
    half: Option<Duration>,
    session_timeout: Duration,
) -> Finding {
    const NEXT: &str = "to be sure, allow the command `conf`: 4lw.commands.whitelist=srvr,conf";
    let unknown =
        format!("the tickTime of {servers} is unknown, because the command `conf` was not answered");
    let Some(half) = half else { return Finding::note(&unknown, NEXT) };
    let tick = half / 2;
    if half <= half_of(session_timeout) {
        let what = format!(
            "{unknown}; inferred: at most {tick:?}, half of a session timeout that was granted (unless \
             minSessionTimeout is set)"
        );
        return Finding::note(&what, NEXT);
    }
    let what = format!(
        "{unknown}; inferred: {tick:?}, half of the shortest session timeout that was granted (unless \
         minSessionTimeout is set)"
    );
    too_few_ticks(&what, session_timeout, tick)
}

/// Reports why there is no session.
pub(crate) fn advise_no_session(error: &zklock::Error) -> Finding {
    let next = match error.kind() {
        zklock::ErrorKind::AuthFailed => {
            "check the credentials in --auth-file, and check that the servers accept them"
        }
        _ if error.to_string().contains("certificate") => {
            "check --tls-ca, --tls-cert and --tls-key; see the findings about each server below"
        }
        _ => "see the findings about each server below",
    };
    Finding::change(format!("cannot establish a session: {error}"), next)
}

/// Reports a server that runs but grants no locks because it has no quorum.
pub(crate) fn advise_no_service(server: &str, srvr: &str) -> Option<Finding> {
    let what = if srvr.contains("not currently serving requests") {
        "serves no requests"
    } else if srvr.lines().any(|line| line == "Mode: read-only") {
        "is read-only and grants no locks"
    } else {
        return None;
    };
    Some(Finding::change(
        format!("{server} {what}: it cannot reach a majority of its ensemble"),
        "start the other servers, and check the network between the servers",
    ))
}

/// Reports a server that did not describe itself.
pub(crate) fn advise_no_answer(server: &str, answer: &Answer, encrypted: bool) -> Finding {
    match answer {
        Answer::NotAllowed | Answer::Text(_) => Finding::note(
            &format!("{server} does not allow the command `srvr`, so its version is unknown"),
            "allow the command: 4lw.commands.whitelist=srvr,conf",
        ),
        Answer::Closed => {
            let what =
                format!("{server} closes the connection after the command `srvr`, so its version is unknown");
            if encrypted {
                Finding::note(&what, "check the server's log, and whether this port uses TLS")
            } else {
                Finding::note(&what, "if this port uses TLS, pass --tls-ca; otherwise check the server's log")
            }
        }
        Answer::None => Finding::change(
            format!("{server} does not answer: the server hangs, or the network drops the packets"),
            "check the network and the server's log and load; restart the server if it hangs",
        ),
        Answer::Unresolved => Finding::change(
            format!("{server} cannot be reached: its name cannot be resolved in time"),
            "check the name resolution of this machine (getent hosts NAME), or use an IP address in --hosts",
        ),
        Answer::Refused => Finding::change(
            format!("{server} refuses connections: no server listens on this port"),
            "start the server, or remove it from --hosts",
        ),
        Answer::Unreachable(why) => Finding::change(
            format!("{server} cannot be reached: {why}"),
            "fix the network path to the server, or remove it from --hosts",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: &str) -> &'static str {
        let srvr = format!("Zookeeper version: {version}-0f3e, built on 2025-01-01 UTC\nMode: follower\n");
        advise_version("zk1:2181", &srvr).mark
    }

    #[test]
    fn releases_that_lose_transactions_are_to_be_changed() {
        assert_eq!(["3.9.4", "3.10.0", "4.0.0"].map(version), ["ok"; 3]);
        assert_eq!(["3.9.3", "3.8.4", "3.7.2"].map(version), ["CHANGE"; 3]);
        assert_eq!(["3.8.5", "", "unknown"].map(version), ["note"; 3]);
    }

    #[test]
    fn clickhouse_keeper_is_named() {
        let keeper = advise_version("ch1:9181", "ClickHouse Keeper version: v23.8.1-testing\nMode: leader\n");
        assert!(keeper.is_a_problem());
        assert!(keeper.to_string().contains("ClickHouse Keeper v23.8.1-testing"), "{keeper}");
    }

    #[test]
    fn a_session_time_out_is_four_ticks_at_least() {
        let conf = "clientPort=2181\ntickTime=2000\n";
        let mark = |seconds| advise_tick("a", conf, Duration::from_secs(seconds)).map(|found| found.mark);
        assert_eq!([mark(8), mark(7)], [Some("ok"), Some("CHANGE")]);
        assert!(advise_tick("a", "", Duration::from_secs(8)).is_none());
    }

    #[test]
    fn an_unknown_tick_is_inferred_and_said_to_be() {
        let seconds = Duration::from_secs;
        // Simulates servers with a tick of two seconds.
        let granted = |asked: Duration| asked.max(seconds(4));
        let told = |session| advise_unknown_tick("a", Some(granted(half_of(session))), session);
        for (session, mark, tick) in [
            (seconds(4), "CHANGE", "2s,"),
            (Duration::from_millis(7_999), "CHANGE", "2s,"),
            (seconds(8), "note", "at most 2s"),
            (seconds(20), "note", "at most 5s"),
        ] {
            let found = told(session);
            assert_eq!(found.mark, mark, "{found}");
            assert!(found.to_string().contains("unknown"), "{found}");
            assert!(found.to_string().contains(&format!("inferred: {tick}")), "{found}");
        }
        assert!(told(seconds(4)).to_string().contains("request at least 8s"));
        let nothing = advise_unknown_tick("a", None, seconds(4));
        assert_eq!(nothing.mark, "note", "{nothing}");
        assert!(!nothing.to_string().contains("inferred"), "{nothing}");
    }

    #[test]
    fn servers_that_do_not_answer_are_told_apart() {
        let told = |answer: &Answer| advise_no_answer("a:1", answer, false);
        let reset = Answer::Unreachable("no route to host".to_owned());
        for (answer, mark, words) in [
            (Answer::NotAllowed, "note", "whitelist"),
            (Answer::Closed, "note", "--tls-ca"),
            (Answer::None, "CHANGE", "hangs"),
            (Answer::Unresolved, "CHANGE", "check the name resolution"),
            (Answer::Refused, "CHANGE", "no server listens"),
            (reset, "CHANGE", "no route to host"),
        ] {
            let found = told(&answer);
            assert_eq!(found.mark, mark, "{found}");
            assert!(found.to_string().contains(words), "{found}");
        }
        assert!(!advise_no_answer("a:1", &Answer::Closed, true).to_string().contains("--tls-ca"));
    }

    #[test]
    fn a_finding_for_programs_has_the_same_words() {
        let found = Finding::change("a is gone".to_owned(), "start it");
        let wanted = json!({ "verdict": "change", "finding": "a is gone", "next": "start it" });
        assert_eq!(found.to_json(), wanted);
        assert_eq!(Finding::good("a".to_owned()).to_json()["next"], Value::Null);
    }

    #[test]
    fn a_server_without_a_majority_is_named() {
        for (srvr, words) in [
            ("This ZooKeeper instance is not currently serving requests", "serves no requests"),
            ("Zookeeper version: 3.9.4\nMode: read-only\n", "is read-only"),
        ] {
            let found = advise_no_service("a", srvr).expect("a finding");
            assert!(found.is_a_problem() && found.to_string().contains(words), "{found}");
            assert!(found.next.is_some_and(|next| next.contains("start the other servers")));
        }
        assert!(advise_no_service("a", "Zookeeper version: 3.9.4\nMode: follower\n").is_none());
    }

    #[test]
    fn one_server_is_no_ensemble() {
        let mark = |srvr, others| advise_mode("a", srvr, others).map(|found| found.mark);
        assert_eq!(mark("Mode: standalone", 0), Some("note"));
        assert_eq!(mark("Mode: standalone", 2), Some("CHANGE"));
        assert_eq!(mark("Mode: follower", 2), None);
    }

    #[test]
    fn few_connections_are_told_of() {
        let mark = |conf| advise_connections("a", conf).map(|found| found.mark);
        assert_eq!(mark("maxClientCnxns=60"), Some("note"));
        assert_eq!([mark("maxClientCnxns=0"), mark("maxClientCnxns=100"), mark("")], [None; 3]);
    }

    #[test]
    fn the_stock_transport_is_to_be_changed() {
        assert!(advise_build("1", Some("stock")).is_a_problem());
        assert!(!advise_build("1", Some("zklock")).is_a_problem());
    }

    #[test]
    fn what_the_servers_changed_is_named() {
        let second = Duration::from_secs(1);
        let raised = advise_session(second, 4 * second).to_string();
        assert!(raised.contains("minSessionTimeout") && raised.contains("request 8s"), "{raised}");
        assert!(advise_session(90 * second, 40 * second).to_string().contains("maxSessionTimeout"));
        assert!(!advise_session(second, second).is_a_problem());
        assert!(advise_latency(second, 10 * second).is_a_problem());
    }
}
