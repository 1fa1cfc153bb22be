//! A client's driver: it drives the real queue as the crate's driver does.

use zklock::queue::{Action, Event, Intent, JoinId, Kind, NodeName, Outcome};
use zklock::reply::discard_stale;

use super::client::{Client, Guard, Hold, Input, Place, Told};
use super::mutants::{Mutant, Pipe};
use super::request::{Request, Sent};
use super::server::Zxid;
use super::session::{News, Session};

impl Client {
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
        self.flush();
    }

    fn take_in(&mut self, input: Input) {
        match input {
            Input::Join(join, naming, kind, intent) => {
                if self.queue.is_none() {
                    self.queue = Some(Pipe::new(self.mutant, self.last_ticket, self.far_beyond));
                    if self.live {
                        let seed = self.seed();
                        self.tell(Event::SessionBegan(seed));
                    }
                    if self.connected {
                        self.tell(Event::Connected);
                    }
                    if self.fresh {
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
            Input::WatchHold(node) => {
                if let Some(hold) = self.holds.get_mut(&node) {
                    if hold.guard == Guard::None {
                        hold.guard = Guard::Watch;
                    }
                    self.tell(Event::WatchHold(node));
                }
            }
            Input::LookAgain => self.tell(Event::LookAgain),
            Input::Certain => {
                if let Some(doubt) = self.queue.as_ref().and_then(Pipe::doubt) {
                    self.tell(Event::Certain(doubt));
                }
            }
            Input::Beat => self.send_heartbeat(),
            Input::Late(event) => self.tell(event),
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
                self.lose_connection();
                self.tell(Event::Disconnected);
            }
            Input::News(News::Expired) => self.lose_session(),
            Input::News(News::Over(id)) => {
                let heeded = self.live && !self.believes_all_stats();
                if let Some(session) = self.session.as_mut().filter(|session| heeded && session.id == id) {
                    session.abandon();
                    self.lose_session();
                }
            }
            // It beats again when the driver settles.
            Input::News(News::Beaten) => {}
            Input::News(News::Queue { connection, event }) => self.receive(connection, event),
        }
    }

    fn receive(&mut self, connection: u64, event: Event) {
        if self.mutant == Some(Mutant::TornPair) && matches!(event, Event::Listed(..)) {
            return self.tell(event);
        }
        // On a working connection: the server asks for patience.
        if event.is_lost() && self.connected && connection == self.connection {
            return self.late.push_back(event);
        }
        let event = discard_stale(event, connection, self.connection);
        if matches!(event, Event::Watched(_, Outcome::Refused(_))) {
            // Holds that it already watches are excused with the one that this is for.
            let watched = self.holds.values_mut().filter(|hold| hold.guard == Guard::Watch);
            watched.for_each(|hold| hold.guard = Guard::Heartbeat);
        }
        self.tell(event);
    }

    /// Whether it is one that does not look whose nodes are: Curator does not.
    fn believes_all_stats(&self) -> bool {
        matches!(self.mutant, Some(Mutant::Curator604 | Mutant::Curator498))
    }

    fn lose_connection(&mut self) {
        self.connection += 1;
        self.connected = false;
        let number = self.connection;
        self.on_session(|session, _| session.moved(number));
    }

    fn lose_session(&mut self) {
        self.lose_connection();
        self.live = false;
        let lost = std::mem::take(&mut self.holds).into_keys().map(Told::Lost);
        self.told.extend(lost);
        self.tell(Event::SessionLost);
    }

    fn tell(&mut self, event: Event) {
        if let Some(queue) = &mut self.queue {
            queue.handle(event);
            self.unsettled = true;
        }
    }

    fn seed(&mut self) -> u64 {
        if self.mutant != Some(Mutant::SeedKept) || self.seeds == 0 {
            self.seeds += 1;
        }
        // Spread over the bits that a uuid keeps.
        (self.number << 48) | (self.seeds << 16)
    }

    fn flush(&mut self) {
        self.check_term();
        // Carrying out an action may tell the queue something.
        self.unsettled = true;
        while std::mem::take(&mut self.unsettled) {
            if let Some(queue) = &mut self.queue {
                queue.flush();
            }
            while let Some(action) = self.queue.as_mut().and_then(Pipe::next_action) {
                self.act(action);
            }
        }
        let beats = self.session.as_ref().is_some_and(Session::beats);
        if self.live && self.connected && !self.fresh && !beats {
            self.send_heartbeat();
        }
        if let Some(queue) = self.queue.take_if(|queue| queue.is_idle()) {
            self.last_ticket = self.last_ticket.max(queue.last_ticket());
        }
    }

    /// Reads the clock, and acts on it: all holds end with the term, and their nodes are deleted.
    fn check_term(&mut self) {
        let running = self.term_runs();
        if std::mem::replace(&mut self.running, running) && !running {
            for (node, _) in std::mem::take(&mut self.holds) {
                self.told.push(Told::Lost(node.clone()));
                self.come_too_late(&node);
                self.tell(Event::Release(node));
            }
        }
        let fresh = self.is_fresh();
        if std::mem::replace(&mut self.fresh, fresh) != fresh {
            self.tell(if fresh { Event::TermBegan } else { Event::TermEnded });
        }
    }

    /// A writer is lost: requests for its place that the driver has yet to receive come too late.
    fn come_too_late(&mut self, writer: &NodeName) {
        for input in &self.inbox {
            let Input::Join(reader, _, _, Intent::Downgrade { writer: of, .. }) = input else { continue };
            let place = self.waiting.get_mut(reader).and_then(|wish| wish.place.as_mut());
            if let Some(place) = place.filter(|_| **of == *writer) {
                place.late = true;
            }
        }
    }

    /// Proves the session, if an owner holds or is about to.
    fn send_heartbeat(&mut self) {
        let Some(queue) = &self.queue else { return };
        let nodes = queue.places();
        if !nodes.is_empty() && (!self.holds.is_empty() || queue.is_near()) {
            // On a connection without a proof it is not known whose session answers (rule 11).
            let proven = self.session.as_ref().is_some_and(Session::is_proven);
            let asks = !proven && self.mutant != Some(Mutant::BlindHeartbeat) && !self.believes_all_stats();
            self.requests.heartbeats += 1;
            self.send(Request::Heartbeat(nodes, asks));
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
            Action::CreateInPlace(ticket, join, name, check) => {
                self.requests.creates += 1;
                self.prefixes.insert(name.clone(), join);
                let check = check.map(|writer| writer.as_str().to_owned());
                self.send(Request::CreateInPlace(ticket, name, check));
            }
            Action::MakeParents(ticket) => {
                self.requests.parents += 1;
                self.send(Request::MakeParents(ticket));
            }
            Action::Verify(ticket, node) => {
                self.requests.verifies += 1;
                self.send(Request::Verify(ticket, node.as_str().to_owned()));
            }
            Action::Probe(ticket, names) => {
                self.requests.probes += 1;
                self.send(Request::Probe(ticket, names));
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
        self.told.push(if self.is_fresh() { Told::Granted(join) } else { Told::Unfounded(join) });
        let wish = self.waiting.remove(&join);
        let writers_place = Some(Place { session, sequence: node.sequence(), late: false });
        let place = wish.and_then(|wish| wish.place);
        let unwanted = if node.as_str().contains("-lease-") { Kind::Permit(u32::MAX) } else { node.kind() };
        let kind = wish.map_or(unwanted, |wish| wish.kind);
        let hold = Hold { join, kind, place, node: node.clone(), czxid, session, guard: Guard::None };
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
