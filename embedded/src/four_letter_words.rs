//! The four-letter words: an operator's queries over a connection without a session.

use std::fmt::Write;

/// The version that `envi` and `srvr` report. Clients read it to find out which features the server
/// supports.
const VERSION: &str = "3.9.5-zklock-embedded, built for development and tests";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Ruok,
    Srvr,
    Stat,
    Mntr,
    Cons,
    Wchs,
    Wchp,
    Dump,
    Envi,
}

impl Word {
    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
        Some(match &bytes {
            b"ruok" => Word::Ruok,
            b"srvr" => Word::Srvr,
            b"stat" => Word::Stat,
            b"mntr" => Word::Mntr,
            b"cons" => Word::Cons,
            b"wchs" => Word::Wchs,
            b"wchp" => Word::Wchp,
            b"dump" => Word::Dump,
            b"envi" => Word::Envi,
            _ => return None,
        })
    }
}

/// The numbers that several words report.
pub(crate) struct Figures {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) connections: usize,
    pub(crate) zxid: i64,
    pub(crate) nodes: usize,
    pub(crate) ephemerals: usize,
    pub(crate) data_size: usize,
    pub(crate) sessions: usize,
    /// Number of watches of all kinds.
    pub(crate) watches: usize,
}

/// Returns the text of `envi`.
pub(crate) fn environment() -> String {
    format!("Environment:\nzookeeper.version={VERSION}\n")
}

/// Returns the text of `srvr`, or of `stat` if `clients` is not empty.
pub(crate) fn server(clients: &str, figures: &Figures) -> String {
    let Figures { received, sent, connections, zxid, nodes, .. } = figures;
    let clients = if clients.is_empty() { String::new() } else { format!("Clients:\n{clients}\n") };
    format!(
        "Zookeeper version: {VERSION}\n{clients}Latency min/avg/max: 0/0.0/0\nReceived: {received}\nSent: {sent}\n\
         Connections: {connections}\nOutstanding: 0\nZxid: {zxid:#x}\nMode: standalone\nNode count: {nodes}\n"
    )
}

/// Returns the text of `mntr`.
pub(crate) fn monitor(figures: &Figures) -> String {
    let mut text = format!("zk_version\t{VERSION}\nzk_server_state\tstandalone\n");
    for (name, value) in [
        ("packets_received", figures.received),
        ("packets_sent", figures.sent),
        ("num_alive_connections", figures.connections as u64),
        ("outstanding_requests", 0),
        ("znode_count", figures.nodes as u64),
        ("watch_count", figures.watches as u64),
        ("ephemerals_count", figures.ephemerals as u64),
        ("approximate_data_size", figures.data_size as u64),
        ("global_sessions", figures.sessions as u64),
    ] {
        // Writing to a string cannot fail, here and below.
        writeln!(text, "zk_{name}\t{value}").unwrap_or_default();
    }
    text
}

pub(crate) fn watches((watchers, paths, total): (usize, usize, usize)) -> String {
    format!("{watchers} connections watching {paths} paths\nTotal watches:{total}\n")
}

/// Returns the text of `wchp`: each path with a data watch, and the sessions that watch it.
pub(crate) fn watchers<'a>(watched: impl Iterator<Item = (&'a str, impl Iterator<Item = i64>)>) -> String {
    let mut text = String::new();
    for (path, sessions) in watched {
        writeln!(text, "{path}").unwrap_or_default();
        for session in sessions {
            writeln!(text, "\t{session:#x}").unwrap_or_default();
        }
    }
    text
}

/// Returns the text of `dump`: the number of sessions, then each session that owns ephemeral nodes,
/// with those nodes.
pub(crate) fn owners(sessions: usize, owned: &[(i64, Vec<String>)]) -> String {
    let owners = owned.len();
    let mut text = format!(
        "SessionTracker dump:\nSession Sets (0)/({sessions}):\nephemeral nodes dump:\n\
         Sessions with Ephemerals ({owners}):\n"
    );
    for (session, nodes) in owned {
        writeln!(text, "{session:#x}:").unwrap_or_default();
        for node in nodes {
            writeln!(text, "\t{node}").unwrap_or_default();
        }
    }
    text
}
