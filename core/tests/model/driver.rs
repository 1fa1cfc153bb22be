//! A client's driver: it drives the real queue as the crate's driver does.

use zklock::queue::{Action, Event, Intent, JoinId, Kind, NodeName, Outcome};

use super::client::{Client, Hold, Input, Place, Told};
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
            Input::Certain => {
                if let Some(doubt) = self.queue.as_ref().and_then(Pipe::doubt) {
                    self.tell(Event::Certain(doubt));
                }
            }
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
