//! A client: the real queue, driven as the crate's driver does it.

use std::collections::{BTreeMap, VecDeque};

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue, Refusal};

use super::network::{News, Request, Sent, Session};
use super::server::{Server, SessionId, Zxid};

/// What reaches a driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Input {
    Join(JoinId, Naming, Intent),
    Leave(JoinId),
    Release(JoinId),
    Guard(JoinId),
    LookAgain,
    Began,
    News(News),
}

/// A lock held, as far as the application knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) node: NodeName,
    pub(crate) czxid: Zxid,
    pub(crate) session: SessionId,
}

/// What an application hears of its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Granted(JoinId),
    Refused(JoinId, Refusal),
    Lost(JoinId),
    Released(JoinId),
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
}

impl Requests {
    pub(crate) fn all(&self) -> u32 {
        self.lists + self.syncs + self.verifies + self.watches + self.unwatches + self.writes()
    }

    pub(crate) fn writes(&self) -> u32 {
        self.creates + self.deletes + self.parents
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    number: u64,
    /// The application's attempts that it still waits for.
    pub(crate) waiting: BTreeMap<JoinId, Intent>,
    /// The application's locks.
    pub(crate) holds: BTreeMap<JoinId, Hold>,
    /// What the application heard since the last time that somebody looked.
    pub(crate) told: Vec<Told>,
    /// Which attempt each name before its sequence number was made for.
    pub(crate) prefixes: BTreeMap<String, JoinId>,
    pub(crate) requests: Requests,
    /// What the client crate has. None between sessions.
    pub(crate) session: Option<Session>,
    inbox: VecDeque<Input>,
    pub(crate) queue: Option<Queue>,
    live: bool,
    connected: bool,
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
            live: true,
            connected: true,
            connection: 0,
            seeds: 0,
            joins: 0,
        }
    }

    // The application.

    pub(crate) fn join(&mut self, naming: Naming, intent: Intent) -> JoinId {
        self.joins += 1;
        let join = JoinId(self.joins);
        self.inbox.push_back(Input::Join(join, naming, intent));
        self.waiting.insert(join, intent);
        join
    }

    pub(crate) fn leave(&mut self, join: JoinId) {
        if self.waiting.remove(&join).is_some() {
            self.inbox.push_back(Input::Leave(join));
        }
    }

    pub(crate) fn release(&mut self, join: JoinId) {
        if self.holds.remove(&join).is_some() {
            self.inbox.push_back(Input::Release(join));
        }
    }

    pub(crate) fn guard(&mut self, join: JoinId) {
        self.inbox.push_back(Input::Guard(join));
    }

    pub(crate) fn look_again(&mut self) {
        self.inbox.push_back(Input::LookAgain);
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

    /// Finds a new session, after the driver heard that the last one is over. The last one is closed first.
    pub(crate) fn establish(&mut self, server: &mut Server) {
        if self.live {
            return;
        }
        if let Some(session) = self.session.take() {
            server.expire(session.id);
        }
        self.session = Some(Session::begin(server));
        self.live = true;
        self.inbox.push_back(Input::Began);
    }

    pub(crate) fn needs_session(&self) -> bool {
        !self.live
    }

    /// Whether the driver is connected, and has drawn its conclusions from all that happened.
    pub(crate) fn has_settled(&self) -> bool {
        self.connected && self.inbox.is_empty()
    }

    // The driver.

    /// The driver takes up to `count` inputs and draws conclusions.
    pub(crate) fn drive(&mut self, count: usize) {
        if self.inbox.is_empty() {
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
            Input::Join(join, naming, intent) => {
                if self.queue.is_none() {
                    self.queue = Some(Queue::new());
                    if self.live {
                        let seed = self.seed();
                        self.tell(Event::SessionBegan(seed));
                    }
                    if self.connected {
                        self.tell(Event::Connected);
                        self.tell(Event::TermBegan);
                    }
                }
                self.tell(Event::Join(join, naming, Kind::Exclusive, intent));
            }
            Input::Leave(join) => self.tell(Event::Leave(join)),
            Input::Release(join) => {
                self.holds.remove(&join);
                self.tell(Event::Release(join));
            }
            Input::Guard(join) => self.tell(Event::Guard(join)),
            Input::LookAgain => self.tell(Event::LookAgain),
            Input::Began => {
                self.connected = true;
                let seed = self.seed();
                self.tell(Event::SessionBegan(seed));
                self.tell(Event::Connected);
                self.tell(Event::TermBegan);
            }
            Input::News(News::Connected) => {
                self.connected = true;
                self.tell(Event::Connected);
                self.tell(Event::TermBegan);
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
                self.tell(Event::SessionLost);
            }
            Input::News(News::Queue { connection, event }) => {
                let event = match event {
                    Event::Listed(ticket, _) if connection != self.connection => {
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
        }
    }

    fn seed(&mut self) -> u64 {
        self.seeds += 1;
        // Spread over the bits that a uuid keeps.
        (self.number << 48) | (self.seeds << 16)
    }

    fn settle(&mut self) {
        let Some(queue) = &mut self.queue else { return };
        queue.settle();
        while let Some(action) = self.queue.as_mut().and_then(Queue::next_action) {
            self.act(action);
        }
        if self.queue.as_ref().is_some_and(Queue::is_idle) {
            self.queue = None;
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Grant(join, node, czxid) => {
                let session = self.session.as_ref().expect("a grant needs a session").id;
                self.holds.insert(join, Hold { node, czxid, session });
                self.told.push(Told::Granted(join));
                if self.waiting.remove(&join).is_none() {
                    // Left, but the driver did not know yet: nobody receives the lease, which releases it.
                    self.inbox.push_back(Input::Release(join));
                }
            }
            Action::Refuse(join, refusal) => {
                self.waiting.remove(&join);
                self.told.push(Told::Refused(join, refusal));
            }
            Action::NodeLost(join) => {
                self.holds.remove(&join);
                self.told.push(Told::Lost(join));
            }
            Action::Released(join) => self.told.push(Told::Released(join)),
            Action::Ignored(_) => {}
            Action::Unwatch(ticket) => {
                if !self.live {
                    return;
                }
                self.requests.unwatches += 1;
                let connection = self.connection;
                self.on_session(|session, _| session.unwatch(ticket, connection));
            }
            Action::List { ticket, sync } => {
                if sync {
                    self.requests.syncs += 1;
                    self.send(Request::Sync);
                }
                self.requests.lists += 1;
                self.send(Request::List(ticket));
            }
            Action::Create(ticket, join, prefix) => {
                self.requests.creates += 1;
                self.prefixes.insert(prefix.clone(), join);
                self.send(Request::Create(ticket, prefix));
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
            Action::CreateInPlace(..) | Action::ListAndWatch { .. } => {
                unreachable!("the model's contenders want a mutex")
            }
            Action::Delete(ticket, node) => {
                self.requests.deletes += 1;
                self.send(Request::Delete(ticket, node.as_str().to_owned()));
            }
        }
    }

    fn send(&mut self, request: Request) {
        // Without a session what was asked for is forgotten with it.
        if self.live {
            let sent = Sent { request, connection: self.connection };
            self.on_session(|session, news| session.send(sent, news));
        }
    }
}
