//! The four-letter words: what an operator asks a server over a bare connection.

use std::fmt::Write;

/// What a server is said to be by `envi` and `srvr`: clients read its features off the number.
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

/// What the words tell.
pub(crate) struct Facts {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) zxid: i64,
    pub(crate) nodes: usize,
    pub(crate) ephemerals: usize,
    pub(crate) data_size: usize,
    pub(crate) sessions: usize,
    /// Watchers, watched paths and watches of data.
    pub(crate) watches: (usize, usize, usize),
    pub(crate) all_watches: usize,
    /// Each path with a data watch, and the sessions that watch it.
    pub(crate) watched: Vec<(String, Vec<i64>)>,
    /// Each session with ephemeral nodes, and these.
    pub(crate) owned: Vec<(i64, Vec<String>)>,
    /// One line for each connection.
    pub(crate) connections: Vec<String>,
}

impl Facts {
    /// The answer to a word.
    pub(crate) fn tell(&self, word: Word) -> String {
        match word {
            Word::Ruok => "imok".to_owned(),
            Word::Srvr => format!("Zookeeper version: {VERSION}\n{}", self.summary()),
            Word::Stat => {
                format!("Zookeeper version: {VERSION}\nClients:\n{}\n{}", self.clients(), self.summary())
            }
            Word::Cons => format!("{}\n", self.clients()),
            Word::Mntr => self.figures(),
            Word::Wchs => {
                let (watchers, paths, total) = self.watches;
                format!("{watchers} connections watching {paths} paths\nTotal watches:{total}\n")
            }
            Word::Wchp => self.watchers(),
            Word::Dump => self.owners(),
            Word::Envi => format!("Environment:\nzookeeper.version={VERSION}\n"),
        }
    }

    fn clients(&self) -> String {
        self.connections.iter().flat_map(|line| [" ", line, "\n"]).collect()
    }

    fn watchers(&self) -> String {
        let mut text = String::new();
        for (path, sessions) in &self.watched {
            // Writing to a string cannot fail.
            writeln!(text, "{path}").unwrap_or_default();
            for session in sessions {
                writeln!(text, "\t{session:#x}").unwrap_or_default();
            }
        }
        text
    }

    fn owners(&self) -> String {
        let (sessions, owners) = (self.sessions, self.owned.len());
        let mut text = format!(
            "SessionTracker dump:\nSession Sets (0)/({sessions}):\nephemeral nodes dump:\n\
             Sessions with Ephemerals ({owners}):\n"
        );
        for (session, nodes) in &self.owned {
            // Writing to a string cannot fail.
            writeln!(text, "{session:#x}:").unwrap_or_default();
            for node in nodes {
                writeln!(text, "\t{node}").unwrap_or_default();
            }
        }
        text
    }

    fn summary(&self) -> String {
        let Facts { received, sent, zxid, nodes, .. } = self;
        format!(
            "Latency min/avg/max: 0/0.0/0\nReceived: {received}\nSent: {sent}\nConnections: {}\nOutstanding: 0\n\
             Zxid: {zxid:#x}\nMode: standalone\nNode count: {nodes}\n",
            self.connections.len(),
        )
    }

    fn figures(&self) -> String {
        let mut text = format!("zk_version\t{VERSION}\nzk_server_state\tstandalone\n");
        for (name, value) in [
            ("packets_received", self.received),
            ("packets_sent", self.sent),
            ("num_alive_connections", self.connections.len() as u64),
            ("outstanding_requests", 0),
            ("znode_count", self.nodes as u64),
            ("watch_count", self.all_watches as u64),
            ("ephemerals_count", self.ephemerals as u64),
            ("approximate_data_size", self.data_size as u64),
            ("global_sessions", self.sessions as u64),
        ] {
            // Writing to a string cannot fail.
            writeln!(text, "zk_{name}\t{value}").unwrap_or_default();
        }
        text
    }
}
