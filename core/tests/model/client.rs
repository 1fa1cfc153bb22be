//! A model client: the requests and notifications of its application, and its session. `driver`
//! models its driver.

use std::collections::{BTreeMap, VecDeque};

use zklock::queue::{Access, Event, Intent, JoinId, Kind, Naming, NodeName, Refusal, Ticket};

use super::attempt::{Answer, Attempt};
use super::foreign::conflict;
use super::local::{Local, SharedNode};
use super::mutants::{Mutant, Pipe};
use super::server::{Server, SessionId, Zxid};
use super::session::{News, Session};

/// The value of `far_beyond` in production.
pub(crate) const FAR_BEYOND: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Join(usize, JoinId, Naming, Kind, Intent),
    Leave(usize, JoinId),
    Release(usize, NodeName),
    WatchHold(usize, NodeName),
    /// A holder handed this node to the next owner. The last field is the new owner's request for
    /// the other half of a read/write lock, if there is one.
    HandedOn(NodeName, Kind, Option<JoinId>),
    /// The time for which a node is kept has expired.
    KeepingEnds(NodeName),
    /// The owner of a node is asked to give up the lock.
    Revoked(NodeName),
    LookAgain,
    Certain,
    Beat,
    /// A delayed reply.
    Late(Event),
    Began,
    News(News),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LockRequest {
    pub(crate) directory: usize,
    pub(crate) kind: Kind,
    /// `true` for a try.
    pub(crate) tries: bool,
    /// The oldest server state that the client has read since the request, as a transaction number.
    /// Used only for requests that must not wait (tries).
    pub(super) since: Zxid,
    /// `true` if the same client had a conflicting contender at some time since the request.
    pub(super) beside: bool,
    /// `true` if an attempt requested this as one of several parts.
    pub(super) part: bool,
    /// The request of the same owner for the other half of a read/write lock.
    pub(super) other_half: Option<JoinId>,
    /// The writer's place that a downgrade takes.
    pub(crate) place: Option<Place>,
}

/// The place in the queue that a downgrade takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) session: SessionId,
    pub(crate) sequence: u64,
    /// The request that became the writer's hold.
    pub(crate) writer: JoinId,
    /// `true` if the writer was lost before the driver received the request. Then the reader may
    /// take over the writer's position in the queue, but need not.
    pub(crate) late: bool,
}

/// A lock that the application believes it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    /// The request that became this hold.
    pub(crate) join: JoinId,
    pub(crate) directory: usize,
    /// `true` if the hold is part of an acquire of several locks or permits.
    pub(crate) part: bool,
    pub(crate) kind: Kind,
    /// The writer's place that this hold takes over (a downgrade).
    pub(crate) place: Option<Place>,
    pub(crate) node: NodeName,
    pub(crate) czxid: Zxid,
    pub(crate) session: SessionId,
    pub(crate) guard: Guard,
    /// The state that consecutive holds on this node share, if the client can hand the node on or
    /// keep it.
    pub(crate) shared: Option<SharedNode>,
}

/// The way in which the client notices the deletion of a hold's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// None, because the hold is new.
    None,
    /// A watch on the node.
    Watch,
    /// Heartbeats, because the server refuses the watch.
    Heartbeat,
}

/// A notification to the application about its requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Notification {
    Granted(JoinId),
    /// The client granted a lock although its term has ended.
    Unfounded(JoinId),
    /// The client granted a lock without a request to the server, although there is no connection.
    Unconnected(JoinId),
    /// The client granted a lock without a request and without the driver's consent, although the
    /// children are not watched.
    Unwatched(JoinId),
    /// The client granted a lock without a request, on a node that another client had asked it to
    /// release.
    AskedFor(JoinId),
    Refused(JoinId, Refusal),
    Lost(NodeName),
    Released(NodeName),
}

/// An action for a try, a request that must not wait. The checks examine it later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TryAction {
    /// The try was refused because the lock is taken.
    Busy(JoinId, LockRequest),
    /// The client creates a node for the try.
    Creates(JoinId, LockRequest),
}

/// Number of requests of each kind that a client sent.
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
    pub(crate) waiting: BTreeMap<JoinId, LockRequest>,
    pub(crate) holds: BTreeMap<NodeName, Hold>,
    /// The notifications to the application that the test has not read yet.
    pub(crate) notifications: Vec<Notification>,
    /// The actions for tries that the test has not checked yet.
    pub(super) tried: Vec<TryAction>,
    /// The client's waiters without nodes and its kept nodes, if its lock options permit these.
    pub(crate) local: Option<Box<Local>>,
    /// Its attempts at several locks or permits.
    pub(crate) attempts: Vec<Attempt>,
    /// Replies to the requests of `attempts` that the attempts have not received yet.
    pub(super) answers: BTreeMap<JoinId, Answer>,
    /// For each name prefix (without the sequence number): the request for which it was created.
    pub(crate) prefixes: BTreeMap<String, JoinId>,
    pub(crate) requests: Requests,
    /// The state of the client crate. `None` between sessions.
    pub(crate) session: Option<Session>,
    pub(super) inbox: VecDeque<Input>,
    /// The queues by directory number.
    pub(crate) queues: BTreeMap<usize, Pipe>,
    /// The bug that the test has put into the client's queues, and for some bugs also into its
    /// driver.
    pub(crate) mutant: Option<Mutant>,
    /// A contender is far from the head of the queue if more contenders than this are ahead of it.
    pub(crate) far_beyond: u8,
    /// `true` if the queue received an event since its last flush.
    pub(super) unsettled: bool,
    pub(super) live: bool,
    pub(super) connected: bool,
    /// `true` if the term has not ended, as far as the holders know.
    pub(super) running: bool,
    /// `true` if a hold may begin, as last reported to the queue.
    pub(super) fresh: bool,
    /// The last tickets of the queues that were dropped.
    pub(super) last_tickets: BTreeMap<usize, Ticket>,
    /// Delayed replies.
    pub(super) late: VecDeque<Event>,
    /// Sessions that the ensemble has not ended yet, although the client has replaced them or its
    /// process has been killed.
    pub(crate) old_sessions: Vec<SessionId>,
    /// The connection of a killed process's session. Its servers may still execute the requests
    /// that they received.
    pub(crate) remains: Option<Session>,
    pub(super) connection: u64,
    pub(super) seeds: u64,
    pub(super) joins: u64,
}

impl Client {
    pub(crate) fn new(number: u64, server: &mut Server) -> Self {
        Self {
            number,
            waiting: BTreeMap::new(),
            holds: BTreeMap::new(),
            notifications: Vec::new(),
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
            old_sessions: Vec::new(),
            remains: None,
            connection: 0,
            seeds: 0,
            joins: 0,
        }
    }

    pub(crate) fn join(&mut self, naming: Naming, kind: Kind, intent: Intent) -> JoinId {
        self.join_at(0, naming, kind, intent)
    }

    /// Requests the lock in one of several directories.
    pub(super) fn join_at(&mut self, directory: usize, naming: Naming, kind: Kind, intent: Intent) -> JoinId {
        self.joins += 1;
        let join = JoinId(self.joins);
        let tries = intent.only_tries();
        // Only tries use this.
        let since = self.session.as_ref().filter(|_| tries).map_or(Zxid::MAX, Session::shows);
        let mut request = LockRequest {
            directory,
            kind,
            tries,
            since,
            beside: false,
            part: false,
            other_half: None,
            place: None,
        };
        for other in self.waiting.values_mut().filter(|other| other.directory == directory) {
            other.beside |= other.tries && against(other.kind, kind);
            request.beside |= tries && against(kind, other.kind);
        }
        let held = self.holds.values().filter(|hold| hold.directory == directory);
        // An owner does not block itself.
        let others =
            held.filter(|hold| !matches!(&intent, Intent::Downgrade { writer, .. } if **writer == hold.node));
        request.beside |= tries && others.into_iter().any(|hold| against(kind, hold.kind));
        self.waiting.insert(join, request);
        if self.take_again(join, kind, &intent, Access::AnyThread) {
            return join;
        }
        self.inbox.push_back(Input::Join(directory, join, naming, kind, intent));
        join
    }

    pub(crate) fn has_joined(&self) -> bool {
        self.joins > 0
    }

    /// Returns `true` if a request that must not wait (a try) is pending, or if an action for such
    /// a request has not been checked yet.
    pub(super) fn has_tries(&self) -> bool {
        !self.tried.is_empty() || self.waiting.values().any(|request| request.tries)
    }

    /// Updates `since` of all requests that must not wait (tries), in case the current server lags
    /// further behind.
    pub(super) fn follow_tries(&mut self) {
        let Some(session) = &self.session else { return };
        let shows = session.shows();
        for request in self.waiting.values_mut().filter(|request| request.tries) {
            request.since = request.since.min(shows);
        }
    }

    pub(crate) fn join_both(&mut self, naming: Naming) {
        let writer = self.join(naming, Kind::Write, Intent::Wait);
        let reader = self.join(naming, Kind::Read, Intent::Wait);
        self.waiting.entry(writer).and_modify(|request| request.other_half = Some(reader));
        self.waiting.entry(reader).and_modify(|request| request.other_half = Some(writer));
    }

    /// Requests the read lock for the owner of a write lock. If `tries` is `true`, the request must
    /// not wait.
    pub(crate) fn downgrade(&mut self, naming: Naming, writer: &NodeName, tries: bool) {
        if let Some(hold) = self.holds.get(writer).filter(|hold| hold.kind == Kind::Write) {
            let Hold { join, session, .. } = *hold;
            let sequence = hold.node.sequence();
            let place = Some(Place { session, sequence, writer: join, late: false });
            self.begin_downgrade(writer);
            let intent = Intent::Downgrade { writer: Box::new(writer.clone()), tries };
            let reader = self.join(naming, Kind::Read, intent);
            self.waiting.entry(reader).and_modify(|request| request.place = place);
        }
    }

    pub(crate) fn leave(&mut self, join: JoinId) {
        if let Some(request) = self.waiting.remove(&join) {
            self.inbox.push_back(Input::Leave(request.directory, join));
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

    /// Returns the nodes of the held locks that do not belong to an acquire of several locks or
    /// permits.
    pub(crate) fn separate_locks(&self) -> Vec<NodeName> {
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

    /// Delays the next input that reports a lost request. The real driver also pauses before it
    /// repeats requests that keep getting lost.
    pub(crate) fn put_off(&mut self) {
        let lost = |input: &Input| matches!(input, Input::News(News::Queue { event, .. }) if event.is_lost());
        if !self.is_up()
            && let Some(place) = self.inbox.iter().position(lost)
            && let Some(Input::News(News::Queue { event, .. })) = self.inbox.remove(place)
        {
            self.late.push_back(event);
        }
    }

    /// Ends the pause and delivers the delayed replies.
    pub(crate) fn end_pause(&mut self) {
        self.inbox.extend(self.late.drain(..).map(Input::Late));
    }

    pub(crate) fn is_pausing(&self) -> bool {
        !self.late.is_empty()
    }

    /// Kills the process and starts another one. The old session and its nodes remain until the
    /// ensemble ends the session.
    pub(crate) fn kill(&mut self) {
        let Some(mut session) = self.session.take_if(|_| self.live) else { return };
        session.kill();
        self.old_sessions.extend(session.all());
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
            local.reset();
        }
        (self.live, self.connected, self.running, self.fresh) = (false, false, false, false);
        self.connection += 1;
    }

    pub(crate) fn beat(&mut self) {
        self.inbox.push_back(Input::Beat);
    }

    /// Returns the holds that the application may still rely on, because the term of their session
    /// has not ended.
    pub(crate) fn believed(&self) -> impl Iterator<Item = &Hold> {
        let running = self.session.as_ref().filter(|session| session.term_runs()).map(|session| session.id);
        self.holds.values().filter(move |hold| running == Some(hold.session))
    }

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

    /// Creates a new session after the driver learned that the last one ended. Closes the last
    /// session first, unless the client crate has already replaced it.
    pub(crate) fn establish(&mut self, server: &mut Server) {
        if self.live {
            return;
        }
        match self.session.take() {
            Some(session) if session.is_replaced() => self.old_sessions.extend(session.all()),
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

    pub(crate) fn has_settled(&self) -> bool {
        self.connected && !self.has_news()
    }

    /// Returns `true` if the driver has any input to process, including the beginning or the end of
    /// a term.
    pub(crate) fn has_news(&self) -> bool {
        !self.inbox.is_empty() || self.running != self.term_runs() || self.fresh != self.is_fresh()
    }

    /// Returns `true` if no request is in flight and no reply is delayed.
    pub(crate) fn is_quiet(&self, server: &Server) -> bool {
        let quiet = |session: &Session| session.is_up() && session.is_quiet(server);
        self.has_settled() && self.late.is_empty() && self.session.as_ref().is_some_and(quiet)
    }

    /// Returns `true` if a hold may begin: the term runs, and a reply on this connection has proved
    /// that the session exists (rule 16).
    pub(super) fn is_fresh(&self) -> bool {
        if matches!(self.mutant, Some(Mutant::NoRelist | Mutant::FarBelieved)) {
            return self.term_runs();
        }
        self.connected && self.term_runs() && self.session.as_ref().is_some_and(Session::is_fresh)
    }

    pub(super) fn term_runs(&self) -> bool {
        self.live && self.session.as_ref().is_some_and(Session::term_runs)
    }

    /// Returns the request for which a node was created.
    pub(crate) fn made_for(&self, node: &str) -> Option<JoinId> {
        self.prefixes.iter().find(|(prefix, _)| node.starts_with(*prefix)).map(|(_, join)| *join)
    }
}

/// Returns `true` if a contender of kind `kind` may have to wait for a contender of kind `other`.
fn against(kind: Kind, other: Kind) -> bool {
    matches!(kind, Kind::Permit(_)) || conflict(kind, other)
}
