//! A client: what its application wants and is told, and its session. The driver in it is in `driver`.

use std::collections::{BTreeMap, VecDeque};

use zklock::queue::{Intent, JoinId, Kind, Naming, NodeName, Refusal};

use super::mutants::{Mutant, Pipe};
use super::server::{Server, SessionId, Zxid};
use super::session::{News, Session};

/// What reaches a driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Join(JoinId, Naming, Kind, Intent),
    Leave(JoinId),
    Release(NodeName),
    WatchHold(NodeName),
    LookAgain,
    Certain,
    Beat,
    Began,
    News(News),
}

/// What an application asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub(crate) kind: Kind,
    /// The same owner's request for the other half of a read/write lock.
    pub(super) other_half: Option<JoinId>,
    /// The writer's node whose place it is to take.
    pub(crate) place: Option<Place>,
}

/// Where a downgrade is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) session: SessionId,
    pub(crate) sequence: u64,
    /// The writer was lost before the driver learned of the request: the reader may, but need not, take its place.
    pub(crate) late: bool,
}

/// A lock that the application believes it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    /// The attempt that became this hold.
    pub(crate) join: JoinId,
    pub(crate) kind: Kind,
    /// The writer's node whose place it was to take.
    pub(crate) place: Option<Place>,
    pub(crate) node: NodeName,
    pub(crate) czxid: Zxid,
    pub(crate) session: SessionId,
}

/// What an application is told about its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Granted(JoinId),
    /// Granted, although no term ran.
    Unfounded(JoinId),
    Refused(JoinId, Refusal),
    Lost(NodeName),
    Released(NodeName),
}

/// How many requests of each kind a client made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Requests {
    pub(crate) creates: u32,
    pub(crate) lists: u32,
    pub(crate) syncs: u32,
    pub(crate) verifies: u32,
    pub(crate) watches: u32,
    pub(crate) unwatches: u32,
    pub(crate) deletes: u32,
    pub(crate) parents: u32,
    pub(crate) heartbeats: u32,
}

impl Requests {
    pub(crate) fn all(&self) -> u32 {
        self.lists + self.syncs + self.verifies + self.watches + self.unwatches + self.writes()
    }

    pub(crate) fn writes(&self) -> u32 {
        self.creates + self.deletes + self.parents
    }
}

#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(super) number: u64,
    /// The application's attempts that it still waits for.
    pub(crate) waiting: BTreeMap<JoinId, Wish>,
    /// The application's locks.
    pub(crate) holds: BTreeMap<NodeName, Hold>,
    /// What the application was told since this was last read.
    pub(crate) told: Vec<Told>,
    /// The attempt for which each name, without its sequence number, was created.
    pub(crate) prefixes: BTreeMap<String, JoinId>,
    pub(crate) requests: Requests,
    /// What the client crate keeps. None between sessions.
    pub(crate) session: Option<Session>,
    pub(super) inbox: VecDeque<Input>,
    pub(crate) queue: Option<Pipe>,
    /// The bug of its queues, and perhaps of its driver.
    pub(crate) mutant: Option<Mutant>,
    /// Whether the queue was told something since it last drew conclusions.
    pub(super) unsettled: bool,
    pub(super) live: bool,
    pub(super) connected: bool,
    /// Whether the term runs, as the queue was told.
    pub(super) term: bool,
    /// Sessions that were replaced, and not closed.
    pub(crate) forsaken: Vec<SessionId>,
    pub(super) connection: u64,
    pub(super) seeds: u64,
    pub(super) joins: u64,
}

impl Client {
    /// A client with a session.
    pub(crate) fn new(number: u64, server: &mut Server) -> Self {
        Self {
            number,
            waiting: BTreeMap::new(),
            holds: BTreeMap::new(),
            told: Vec::new(),
            prefixes: BTreeMap::new(),
            requests: Requests::default(),
            session: Some(Session::begin(server)),
            inbox: VecDeque::new(),
            queue: None,
            mutant: None,
            unsettled: false,
            live: true,
            connected: true,
            term: false,
            forsaken: Vec::new(),
            connection: 0,
            seeds: 0,
            joins: 0,
        }
    }

    pub(crate) fn join(&mut self, naming: Naming, kind: Kind, intent: Intent) -> JoinId {
        self.joins += 1;
        let join = JoinId(self.joins);
        self.inbox.push_back(Input::Join(join, naming, kind, intent));
        self.waiting.insert(join, Wish { kind, other_half: None, place: None });
        join
    }

    /// An owner asks for both halves of a read/write lock at once.
    pub(crate) fn join_both(&mut self, naming: Naming) {
        let writer = self.join(naming, Kind::Write, Intent::Wait);
        let reader = self.join(naming, Kind::Read, Intent::Wait);
        self.waiting.entry(writer).and_modify(|wish| wish.other_half = Some(reader));
        self.waiting.entry(reader).and_modify(|wish| wish.other_half = Some(writer));
    }

    /// The owner of a write lock asks for the read lock too.
    pub(crate) fn downgrade(&mut self, naming: Naming, writer: &NodeName) {
        if let Some(hold) = self.holds.get(writer).filter(|hold| hold.kind == Kind::Write) {
            let place = Some(Place { session: hold.session, sequence: hold.node.sequence(), late: false });
            let reader = self.join(naming, Kind::Read, Intent::Downgrade(writer.clone()));
            self.waiting.entry(reader).and_modify(|wish| wish.place = place);
        }
    }

    pub(crate) fn leave(&mut self, join: JoinId) {
        if self.waiting.remove(&join).is_some() {
            self.inbox.push_back(Input::Leave(join));
        }
    }

    pub(crate) fn release(&mut self, node: NodeName) {
        if self.holds.remove(&node).is_some() {
            self.inbox.push_back(Input::Release(node));
        }
    }

    pub(crate) fn watch_hold(&mut self, node: NodeName) {
        self.inbox.push_back(Input::WatchHold(node));
    }

    pub(crate) fn look_again(&mut self) {
        self.inbox.push_back(Input::LookAgain);
    }

    pub(crate) fn certain(&mut self) {
        self.inbox.push_back(Input::Certain);
    }

    pub(crate) fn beat(&mut self) {
        self.inbox.push_back(Input::Beat);
    }

    /// What the application may believe that it holds: its term runs.
    pub(crate) fn believed(&self) -> impl Iterator<Item = &Hold> {
        let running = self.session.as_ref().filter(|session| session.term_runs()).map(|session| session.id);
        self.holds.values().filter(move |hold| running == Some(hold.session))
    }

    /// Lets the session do something that may bring news.
    pub(crate) fn on_session(&mut self, act: impl FnOnce(&mut Session, &mut VecDeque<News>)) {
        let mut news = VecDeque::new();
        if let Some(session) = &mut self.session {
            act(session, &mut news);
        }
        self.inbox.extend(news.into_iter().map(Input::News));
    }

    pub(crate) fn is_up(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_up)
    }

    /// Finds a new session, after the driver learned that the last one is over. The last one is closed first, unless
    /// the crate has replaced it.
    pub(crate) fn establish(&mut self, server: &mut Server) {
        if self.live {
            return;
        }
        match self.session.take() {
            Some(session) if session.is_replaced() => self.forsaken.push(session.id),
            Some(session) => server.expire(session.id),
            None => {}
        }
        self.session = Some(Session::begin(server));
        self.live = true;
        self.inbox.push_back(Input::Began);
    }

    pub(crate) fn needs_session(&self) -> bool {
        !self.live
    }

    /// Whether the driver is connected, and has drawn its conclusions from everything that happened.
    pub(crate) fn has_settled(&self) -> bool {
        self.connected && !self.has_news()
    }

    /// Whether there is anything for the driver to receive, even if only that a term began or ended.
    pub(crate) fn has_news(&self) -> bool {
        !self.inbox.is_empty() || self.term != self.term_runs()
    }

    pub(super) fn term_runs(&self) -> bool {
        self.live && self.session.as_ref().is_some_and(Session::term_runs)
    }

    /// The attempt for which a node was created.
    pub(crate) fn made_for(&self, node: &str) -> Option<JoinId> {
        self.prefixes.iter().find(|(prefix, _)| node.starts_with(*prefix)).map(|(_, join)| *join)
    }
}
