//! A client: the real queue, driven as the crate's driver does it.

use std::collections::{BTreeMap, VecDeque};

use super::mutants::{Mutant, Pipe};
use super::network::{News, Request, Sent, Session};
use super::server::{Server, SessionId, Zxid};
use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Refusal};

/// What reaches a driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Input {
    Join(JoinId, Naming, Kind, Intent),
    Leave(JoinId),
    Release(NodeName),
    WatchHold(NodeName),
    LookAgain,
    Beat,
    Began,
    News(News),
}

/// What an application asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub(crate) kind: Kind,
    /// The same owner's request for the other half of a read/write lock.
    other_half: Option<JoinId>,
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
    /// The attempt that came to it.
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
    number: u64,
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
    inbox: VecDeque<Input>,
    pub(crate) queue: Option<Pipe>,
    /// The bug of its queues, and perhaps of its driver.
    pub(crate) mutant: Option<Mutant>,
    /// Whether the queue was told something since it last drew conclusions.
    unsettled: bool,
    live: bool,
    connected: bool,
    /// Whether the term runs, as the queue was told.
    term: bool,
    /// Sessions that were replaced, and not closed.
    pub(crate) forsaken: Vec<SessionId>,
    connection: u64,
    seeds: u64,
    joins: u64,
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

    // The application.

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

    pub(crate) fn beat(&mut self) {
        self.inbox.push_back(Input::Beat);
    }

    /// What the application may believe that it holds: its term runs.
    pub(crate) fn believed(&self) -> impl Iterator<Item = &Hold> {
        let running = self.session.as_ref().filter(|session| session.term_runs()).map(|session| session.id);
        self.holds.values().filter(move |hold| running == Some(hold.session))
    }

    // The session.

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

    fn term_runs(&self) -> bool {
        self.live && self.session.as_ref().is_some_and(Session::term_runs)
    }

    /// The attempt for which a node was created.
    pub(crate) fn made_for(&self, node: &str) -> Option<JoinId> {
        self.prefixes.iter().find(|(prefix, _)| node.starts_with(*prefix)).map(|(_, join)| *join)
    }

    // The driver.

    /// The driver takes up to `count` inputs and draws conclusions.
    pub(crate) fn drive(&mut self, count: usize) {
        if !self.has_news() {
            return;
        }
        for _ in 0..count {
            let Some(input) = self.inbox.pop_front() else {
                break;
            };
            self.take_in(input);
        }
        self.settle();
    }

    fn take_in(&mut self, input: Input) {
        match input {
            Input::Join(join, naming, kind, intent) => {
                if self.queue.is_none() {
                    self.queue = Some(Pipe::new(self.mutant));
                    if self.live {
                        let seed = self.seed();
                        self.tell(Event::SessionBegan(seed));
                    }
                    if self.connected {
                        self.tell(Event::Connected);
                    }
                    if self.term {
                        self.tell(Event::TermBegan);
                    }
                }
                self.tell(Event::Join(join, naming, kind, intent));
            }
            Input::Leave(join) => self.tell(Event::Leave(join)),
            Input::Release(node) => {
                self.holds.remove(&node);
                self.tell(Event::Release(node));
            }
            Input::WatchHold(node) => self.tell(Event::WatchHold(node)),
            Input::LookAgain => self.tell(Event::LookAgain),
            Input::Beat => self.send_heartbeat(),
            Input::Began => {
                self.connected = true;
                let seed = self.seed();
                self.tell(Event::SessionBegan(seed));
                self.tell(Event::Connected);
            }
            Input::News(News::Connected) => {
                self.connected = true;
                self.tell(Event::Connected);
            }
            Input::News(News::Disconnected) => {
                self.connection += 1;
                self.connected = false;
                self.tell(Event::Disconnected);
            }
            Input::News(News::Expired) => {
                self.connection += 1;
                self.connected = false;
                self.live = false;
                let lost = std::mem::take(&mut self.holds).into_keys().map(Told::Lost);
                self.told.extend(lost);
                self.tell(Event::SessionLost);
            }
            Input::News(News::Queue { connection, event }) => {
                let event = match event {
                    Event::Listed(ticket, _)
                        if connection != self.connection && self.mutant != Some(Mutant::TornPair) =>
                    {
                        Event::Listed(ticket, Outcome::Lost)
                    }
                    event => event,
                };
                self.tell(event);
            }
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(queue) = &mut self.queue {
            queue.handle(event);
            self.unsettled = true;
        }
    }

    fn seed(&mut self) -> u64 {
        self.seeds += 1;
        // Spread over the bits that a uuid keeps.
        (self.number << 48) | (self.seeds << 16)
    }

    fn settle(&mut self) {
        self.check_term();
        // Carrying out an action may tell the queue something.
        self.unsettled = true;
        while std::mem::take(&mut self.unsettled) {
            if let Some(queue) = &mut self.queue {
                queue.settle();
            }
            while let Some(action) = self.queue.as_mut().and_then(Pipe::next_action) {
                self.act(action);
            }
        }
        let beats = self.session.as_ref().is_some_and(Session::beats);
        if self.live && self.connected && !self.term && !beats {
            self.send_heartbeat();
        }
        if self.queue.as_ref().is_some_and(Pipe::is_idle) {
            self.queue = None;
        }
    }

    /// Reads the clock, and acts on it: all holds end with the term, and their nodes are deleted.
    fn check_term(&mut self) {
        let running = self.term_runs();
        if running == std::mem::replace(&mut self.term, running) {
            return;
        }
        if !running {
            for (node, _) in std::mem::take(&mut self.holds) {
                self.told.push(Told::Lost(node.clone()));
                self.come_too_late(&node);
                self.tell(Event::Release(node));
            }
        }
        self.tell(if running { Event::TermBegan } else { Event::TermEnded });
    }

    /// A writer is lost: requests for its place that the driver has yet to receive come too late.
    fn come_too_late(&mut self, writer: &NodeName) {
        for input in &self.inbox {
            let Input::Join(reader, _, _, Intent::Downgrade(of)) = input else { continue };
            let place = self.waiting.get_mut(reader).and_then(|wish| wish.place.as_mut());
            if let Some(place) = place.filter(|_| of == writer) {
                place.late = true;
            }
        }
    }

    /// Proves the session, if an owner holds or is about to.
    fn send_heartbeat(&mut self) {
        let Some(queue) = &self.queue else { return };
        let nodes = queue.places();
        if !nodes.is_empty() && (!self.holds.is_empty() || queue.is_near()) {
            self.requests.heartbeats += 1;
            self.send(Request::Heartbeat(nodes));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Grant(join, node, czxid) => self.grant(join, node, czxid),
            Action::Refuse(join, refusal) => {
                self.waiting.remove(&join);
                self.told.push(Told::Refused(join, refusal));
            }
            Action::NodeLost(node) => {
                if self.holds.remove(&node).is_some() {
                    self.told.push(Told::Lost(node));
                }
            }
            Action::Released(node) => self.told.push(Told::Released(node)),
            Action::Ignored(_) => {}
            Action::Unwatch(ticket) => {
                if !self.live {
                    return;
                }
                self.requests.unwatches += 1;
                let connection = self.connection;
                self.on_session(|session, _| session.unwatch(ticket, connection));
            }
            Action::List { ticket, sync } => self.list(Request::List(ticket), sync),
            Action::ListAndWatch { ticket, sync } => self.list(Request::ListAndWatch(ticket), sync),
            Action::Create(ticket, join, prefix) => {
                self.requests.creates += 1;
                self.prefixes.insert(prefix.clone(), join);
                self.send(Request::Create(ticket, prefix));
            }
            Action::CreateInPlace(ticket, join, name) => {
                self.requests.creates += 1;
                self.prefixes.insert(name.clone(), join);
                self.send(Request::CreateInPlace(ticket, name));
            }
            Action::MakeParents(ticket) => {
                self.requests.parents += 1;
                self.send(Request::MakeParents(ticket));
            }
            Action::Verify(ticket, node) => {
                self.requests.verifies += 1;
                self.send(Request::Verify(ticket, node.as_str().to_owned()));
            }
            Action::Watch(ticket, node) => {
                self.requests.watches += 1;
                self.send(Request::Watch(ticket, node.as_str().to_owned()));
            }
            Action::Delete(ticket, node) => {
                self.requests.deletes += 1;
                self.send(Request::Delete(ticket, node.as_str().to_owned()));
            }
        }
    }

    fn list(&mut self, listing: Request, sync: bool) {
        if sync {
            self.requests.syncs += 1;
            self.send(Request::Sync);
        }
        self.requests.lists += 1;
        self.send(listing);
    }

    fn grant(&mut self, join: JoinId, node: NodeName, czxid: Zxid) {
        let session = self.session.as_ref().expect("a grant needs a session").id;
        self.told.push(if self.term_runs() { Told::Granted(join) } else { Told::Unfounded(join) });
        let wish = self.waiting.remove(&join);
        let writers_place = Some(Place { session, sequence: node.sequence(), late: false });
        let place = wish.and_then(|wish| wish.place);
        let unwanted = if node.as_str().contains("-lease-") { Kind::Permit(u32::MAX) } else { node.kind() };
        let kind = wish.map_or(unwanted, |wish| wish.kind);
        let hold = Hold { join, kind, place, node: node.clone(), czxid, session };
        self.holds.insert(node.clone(), hold);
        let Some(wish) = wish else {
            // It left, but the driver did not know yet. No one receives the lease, which releases it.
            return self.inbox.push_back(Input::Release(node));
        };
        // An owner that asked for both halves at once must not wait for itself with the other one.
        let Some(other) = wish.other_half.filter(|other| self.waiting.contains_key(other)) else { return };
        if wish.kind == Kind::Write {
            self.waiting.entry(other).and_modify(|wish| wish.place = writers_place);
            self.tell(Event::Downgrade(other, node));
        } else {
            self.waiting.remove(&other);
            self.tell(Event::Leave(other));
        }
    }

    fn send(&mut self, request: Request) {
        // Without a session, earlier requests are forgotten with it.
        if self.live {
            let sent = Sent { request, connection: self.connection };
            self.on_session(|session, news| session.send(sent, news));
        }
    }
}
