//! A client: what its application wants and is told, and its session. The driver in it is in `driver`.

use std::collections::{BTreeMap, VecDeque};

use zklock::queue::{Access, Event, Intent, JoinId, Kind, Naming, NodeName, Refusal, Ticket};

use super::attempt::{Answer, Attempt};
use super::foreign::conflict;
use super::local::{Local, SharedNode};
use super::mutants::{Mutant, Pipe};
use super::server::{Server, SessionId, Zxid};
use super::session::{News, Session};

/// Production's limit.
pub(crate) const FAR_BEYOND: u8 = 2;

/// What reaches a driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Join(usize, JoinId, Naming, Kind, Intent),
    Leave(usize, JoinId),
    Release(usize, NodeName),
    WatchHold(usize, NodeName),
    /// A holder has handed this node on, for a lock of this kind, to a waiter that perhaps has another.
    HandedOn(NodeName, Kind, Option<JoinId>),
    /// The time for which a node is kept is over.
    KeepingEnds(NodeName),
    /// The owner of a node is asked to give up the lock.
    Revoked(NodeName),
    LookAgain,
    Certain,
    Beat,
    /// An answer that was put off.
    Late(Event),
    Began,
    News(News),
}

/// What an application asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    /// The number of the lock directory.
    pub(crate) directory: usize,
    pub(crate) kind: Kind,
    /// It only tries.
    pub(crate) tries: bool,
    /// No server that has answered since it was asked for was further behind than this.
    pub(super) since: Zxid,
    /// Another contender of the same client that it cannot hold with was there meanwhile.
    pub(super) beside: bool,
    /// It is one of several that an attempt asked for.
    pub(super) part: bool,
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
    /// The attempt that became the writer's hold.
    pub(crate) writer: JoinId,
    /// The writer was lost before the driver learned of the request: the reader may, but need not, take its place.
    pub(crate) late: bool,
}

/// A lock that the application believes it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    /// The attempt that became this hold.
    pub(crate) join: JoinId,
    /// The number of the lock directory.
    pub(crate) directory: usize,
    /// It belongs to an attempt at several locks or permits.
    pub(crate) part: bool,
    pub(crate) kind: Kind,
    /// The writer's node whose place it was to take.
    pub(crate) place: Option<Place>,
    pub(crate) node: NodeName,
    pub(crate) czxid: Zxid,
    pub(crate) session: SessionId,
    pub(crate) guard: Guard,
    /// The facts that it shares with the others on its node, if it may be handed on or kept.
    pub(crate) shared: Option<SharedNode>,
}

/// Whether the node of a hold is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// The hold has not lasted for long.
    None,
    /// Its node is to be watched.
    Watch,
    /// The server refuses the watch. Heartbeats look for the node.
    Heartbeat,
}

/// What an application is told about its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Granted(JoinId),
    /// Granted, although no term ran.
    Unfounded(JoinId),
    /// Granted without a request, although there was no connection.
    Unconnected(JoinId),
    /// Granted without a request or the driver's consent, although the children were not watched.
    Unwatched(JoinId),
    /// Granted without a request, through a node that the client was asked to give up.
    AskedFor(JoinId),
    Refused(JoinId, Refusal),
    Lost(NodeName),
    Released(NodeName),
}

/// A moment at which a contender that only tries must have had a reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tried {
    /// It was told that the lock is taken.
    Busy(JoinId, Wish),
    /// A node is created for it.
    Creates(JoinId, Wish),
}

/// How many requests of each kind a client made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Requests {
    pub(crate) creates: u32,
    pub(crate) lists: u32,
    pub(crate) syncs: u32,
    pub(crate) verifies: u32,
    pub(crate) probes: u32,
    pub(crate) watches: u32,
    pub(crate) unwatches: u32,
    pub(crate) deletes: u32,
    pub(crate) parents: u32,
    pub(crate) heartbeats: u32,
}

impl Requests {
    pub(crate) fn all(&self) -> u32 {
        self.lists + self.syncs + self.verifies + self.probes + self.watches + self.unwatches + self.writes()
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
    /// The ends of tries since this was last read.
    pub(super) tried: Vec<Tried>,
    /// Its waiters without nodes and the nodes that it keeps, if its locks ask for that.
    pub(crate) local: Option<Box<Local>>,
    /// Its attempts at several locks or permits.
    pub(crate) attempts: Vec<Attempt>,
    /// The answers to what these asked for, which they have not received.
    pub(super) answers: BTreeMap<JoinId, Answer>,
    /// The attempt for which each name, without its sequence number, was created.
    pub(crate) prefixes: BTreeMap<String, JoinId>,
    pub(crate) requests: Requests,
    /// What the client crate keeps. None between sessions.
    pub(crate) session: Option<Session>,
    pub(super) inbox: VecDeque<Input>,
    /// The queues, by the numbers of their directories.
    pub(crate) queues: BTreeMap<usize, Pipe>,
    /// The bug of its queues, and perhaps of its driver.
    pub(crate) mutant: Option<Mutant>,
    /// With more than this many before it a contender of its queues is far.
    pub(crate) far_beyond: u8,
    /// Whether the queue was told something since it last drew conclusions.
    pub(super) unsettled: bool,
    pub(super) live: bool,
    pub(super) connected: bool,
    /// Whether the term runs, as the holders know.
    pub(super) running: bool,
    /// Whether a hold may begin, as the queue was told.
    pub(super) fresh: bool,
    /// The last tickets of the queues that were dropped.
    pub(super) last_tickets: BTreeMap<usize, Ticket>,
    /// Answers that were put off.
    pub(super) late: VecDeque<Event>,
    /// Sessions that were replaced, or whose process has died, and that the ensemble has not ended.
    pub(crate) forsaken: Vec<SessionId>,
    /// What is left of the session of a process that has died: its servers may carry out what they have received.
    pub(crate) remains: Option<Session>,
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
            tried: Vec::new(),
            local: None,
            attempts: Vec::new(),
            answers: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            requests: Requests::default(),
            session: Some(Session::begin(server, 0)),
            inbox: VecDeque::new(),
            queues: BTreeMap::new(),
            mutant: None,
            far_beyond: FAR_BEYOND,
            unsettled: false,
            live: true,
            connected: true,
            running: false,
            fresh: false,
            last_tickets: BTreeMap::new(),
            late: VecDeque::new(),
            forsaken: Vec::new(),
            remains: None,
            connection: 0,
            seeds: 0,
            joins: 0,
        }
    }

    pub(crate) fn join(&mut self, naming: Naming, kind: Kind, intent: Intent) -> JoinId {
        self.join_at(0, naming, kind, intent)
    }

    /// Asks for the lock of one of several directories.
    pub(super) fn join_at(&mut self, directory: usize, naming: Naming, kind: Kind, intent: Intent) -> JoinId {
        self.joins += 1;
        let join = JoinId(self.joins);
        let tries = intent.only_tries();
        // Only of a try it matters.
        let since = self.session.as_ref().filter(|_| tries).map_or(Zxid::MAX, Session::shows);
        let mut wish =
            Wish { directory, kind, tries, since, beside: false, part: false, other_half: None, place: None };
        for other in self.waiting.values_mut().filter(|other| other.directory == directory) {
            other.beside |= other.tries && against(other.kind, kind);
            wish.beside |= tries && against(kind, other.kind);
        }
        let held = self.holds.values().filter(|hold| hold.directory == directory);
        // An owner is not in its own way.
        let others =
            held.filter(|hold| !matches!(&intent, Intent::Downgrade { writer, .. } if **writer == hold.node));
        wish.beside |= tries && others.into_iter().any(|hold| against(kind, hold.kind));
        self.waiting.insert(join, wish);
        if self.take_again(join, kind, &intent, Access::Everybody) {
            return join;
        }
        self.inbox.push_back(Input::Join(directory, join, naming, kind, intent));
        join
    }

    /// Whether it has ever asked for the lock.
    pub(crate) fn has_joined(&self) -> bool {
        self.joins > 0
    }

    /// Whether it tries, or has tried since this was last read.
    pub(super) fn has_tries(&self) -> bool {
        !self.tried.is_empty() || self.waiting.values().any(|wish| wish.tries)
    }

    /// Notes how far behind the server is that answers now.
    pub(super) fn follow_tries(&mut self) {
        let Some(session) = &self.session else { return };
        let shows = session.shows();
        for wish in self.waiting.values_mut().filter(|wish| wish.tries) {
            wish.since = wish.since.min(shows);
        }
    }

    /// An owner asks for both halves of a read/write lock at once.
    pub(crate) fn join_both(&mut self, naming: Naming) {
        let writer = self.join(naming, Kind::Write, Intent::Wait);
        let reader = self.join(naming, Kind::Read, Intent::Wait);
        self.waiting.entry(writer).and_modify(|wish| wish.other_half = Some(reader));
        self.waiting.entry(reader).and_modify(|wish| wish.other_half = Some(writer));
    }

    /// The owner of a write lock asks for the read lock too; `tries`: it only tries.
    pub(crate) fn downgrade(&mut self, naming: Naming, writer: &NodeName, tries: bool) {
        if let Some(hold) = self.holds.get(writer).filter(|hold| hold.kind == Kind::Write) {
            let Hold { join, session, .. } = *hold;
            let sequence = hold.node.sequence();
            let place = Some(Place { session, sequence, writer: join, late: false });
            self.begin_downgrade(writer);
            let intent = Intent::Downgrade { writer: Box::new(writer.clone()), tries };
            let reader = self.join(naming, Kind::Read, intent);
            self.waiting.entry(reader).and_modify(|wish| wish.place = place);
        }
    }

    pub(crate) fn leave(&mut self, join: JoinId) {
        if let Some(wish) = self.waiting.remove(&join) {
            self.inbox.push_back(Input::Leave(wish.directory, join));
        }
    }

    pub(crate) fn release(&mut self, node: NodeName) {
        if self.hand_on(&node) || self.keep_node(&node) {
            return;
        }
        if let Some(hold) = self.holds.remove(&node) {
            self.inbox.push_back(Input::Release(hold.directory, node));
        }
    }

    /// The locks that are no part of several.
    pub(crate) fn wholes(&self) -> Vec<NodeName> {
        self.holds.values().filter(|hold| !hold.part).map(|hold| hold.node.clone()).collect()
    }

    pub(crate) fn watch_hold(&mut self, node: NodeName) {
        if let Some(hold) = self.holds.get(&node) {
            self.inbox.push_back(Input::WatchHold(hold.directory, node));
        }
    }

    pub(crate) fn look_again(&mut self) {
        self.inbox.push_back(Input::LookAgain);
    }

    pub(crate) fn certain(&mut self) {
        self.inbox.push_back(Input::Certain);
    }

    /// The driver puts off taking in the next news that a request was lost with its connection: it pauses before those
    /// that are lost again and again.
    pub(crate) fn put_off(&mut self) {
        let lost = |input: &Input| matches!(input, Input::News(News::Queue { event, .. }) if event.is_lost());
        if !self.is_up()
            && let Some(place) = self.inbox.iter().position(lost)
            && let Some(Input::News(News::Queue { event, .. })) = self.inbox.remove(place)
        {
            self.late.push_back(event);
        }
    }

    /// The pause after which answers are taken in that were put off is over.
    pub(crate) fn end_pause(&mut self) {
        self.inbox.extend(self.late.drain(..).map(Input::Late));
    }

    pub(crate) fn is_pausing(&self) -> bool {
        !self.late.is_empty()
    }

    /// The process dies, and another begins in its stead. Its session, and its nodes, go on until the ensemble ends it.
    pub(crate) fn kill(&mut self) {
        let Some(mut session) = self.session.take_if(|_| self.live) else { return };
        session.kill();
        self.forsaken.extend(session.all());
        self.remains = session.has_ghosts().then_some(session);
        self.waiting.clear();
        self.holds.clear();
        self.inbox.clear();
        self.late.clear();
        self.queues.clear();
        self.last_tickets.clear();
        self.attempts.clear();
        self.answers.clear();
        if let Some(local) = &mut self.local {
            local.begin_anew();
        }
        (self.live, self.connected, self.running, self.fresh) = (false, false, false, false);
        self.connection += 1;
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
            Some(session) if session.is_replaced() => self.forsaken.extend(session.all()),
            Some(session) => server.expire(session.id),
            None => {}
        }
        self.session = Some(Session::begin(server, self.connection));
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
        !self.inbox.is_empty() || self.running != self.term_runs() || self.fresh != self.is_fresh()
    }

    /// Whether nothing is under way, and nothing is put off.
    pub(crate) fn is_quiet(&self, server: &Server) -> bool {
        let quiet = |session: &Session| session.is_up() && session.is_quiet(server);
        self.has_settled() && self.late.is_empty() && self.session.as_ref().is_some_and(quiet)
    }

    /// Whether a hold may begin: the term runs, and the session is proven on this connection (rule 16).
    pub(super) fn is_fresh(&self) -> bool {
        if matches!(self.mutant, Some(Mutant::NoRelist | Mutant::FarBelieved)) {
            return self.term_runs();
        }
        self.connected && self.term_runs() && self.session.as_ref().is_some_and(Session::is_fresh)
    }

    pub(super) fn term_runs(&self) -> bool {
        self.live && self.session.as_ref().is_some_and(Session::term_runs)
    }

    /// The attempt for which a node was created.
    pub(crate) fn made_for(&self, node: &str) -> Option<JoinId> {
        self.prefixes.iter().find(|(prefix, _)| node.starts_with(*prefix)).map(|(_, join)| *join)
    }
}

/// Whether a contender may have to wait for another one.
fn against(kind: Kind, other: Kind) -> bool {
    matches!(kind, Kind::Permit(_)) || conflict(kind, other)
}
