//! The model of a client's driver. Like the crate's driver, it runs the real queue code.

use zklock::queue::{Action, Event, Intent, JoinId, Kind, NodeName, Outcome, Refusal, Ticket};
use zklock::reply::discard_stale;

use super::attempt::Answer;
use super::client::{Client, Guard, Hold, Input, Notification, Place, TryAction};
use super::mutants::{Mutant, Pipe};
use super::request::{Request, Sent};
use super::server::Zxid;
use super::session::{News, Session};
use super::{directory_of, first_ticket};

impl Client {
    /// Processes up to `count` inputs, then flushes the queues.
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
            Input::Join(directory, join, naming, kind, intent) => {
                self.open(directory);
                if !self.join_locally(join, naming, kind, &intent) {
                    self.tell(directory, Event::Join(join, naming, kind, intent));
                }
            }
            Input::Leave(directory, join) => {
                if !self.leave_locally(join) {
                    self.tell(directory, Event::Leave(join));
                }
            }
            Input::HandedOn(node, kind, other) => {
                self.handed_on();
                if let Some(other) = other {
                    self.settle_other_half(0, kind, other, node);
                }
            }
            Input::KeepingEnds(node) => drop(self.stop_keeping(&node)),
            Input::Revoked(node) => self.revoked(&node),
            Input::Release(directory, node) => {
                self.holds.remove(&node);
                self.tell(directory, Event::Release(node));
            }
            Input::WatchHold(directory, node) => {
                if let Some(hold) = self.holds.get_mut(&node) {
                    if hold.guard == Guard::None {
                        hold.guard = Guard::Watch;
                    }
                    self.tell(directory, Event::WatchHold(node));
                }
            }
            Input::LookAgain => self.tell_all(&Event::Resync),
            Input::Certain => {
                let doubts: Vec<_> =
                    self.queues.iter().filter_map(|(at, queue)| Some((*at, queue.doubt()?))).collect();
                for (directory, doubt) in doubts {
                    self.tell(directory, Event::Certain(doubt));
                }
            }
            Input::Beat => self.send_heartbeat(),
            Input::Late(event) => self.tell_its_queue(event),
            Input::Began => {
                self.connected = true;
                for directory in self.queues.keys().copied().collect::<Vec<_>>() {
                    let seed = self.seed();
                    self.tell(directory, Event::SessionBegan(seed));
                }
                self.tell_all(&Event::Connected);
            }
            Input::News(News::Connected) => {
                self.connected = true;
                self.tell_all(&Event::Connected);
            }
            Input::News(News::Disconnected) => {
                self.lose_connection();
                self.tell_all(&Event::Disconnected);
            }
            Input::News(News::Expired) => self.lose_session(),
            Input::News(News::Over(id)) => {
                let heeded = self.live && !self.believes_all_stats();
                if let Some(session) = self.session.as_mut().filter(|session| heeded && session.id == id) {
                    session.abandon();
                    self.lose_session();
                }
            }
            // This input changes nothing, but the next flush sends another heartbeat if one is
            // needed.
            Input::News(News::HeartbeatAnswered) => {}
            Input::News(News::Queue { connection, event }) => self.receive(connection, event),
        }
    }

    fn receive(&mut self, connection: u64, event: Event) {
        if self.mutant == Some(Mutant::TornPair) && matches!(event, Event::Listed(..)) {
            return self.tell_its_queue(event);
        }
        // The connection still exists, so the request was lost because the server throttled it.
        // Delay the report.
        if event.is_lost() && self.connected && connection == self.connection {
            return self.late.push_back(event);
        }
        let event = discard_stale(event, connection, self.connection);
        if matches!(event, Event::Watched(_, Outcome::Refused(_))) {
            // A watch was refused. From now on, only heartbeats check the nodes of the holds.
            let watched = self.holds.values_mut().filter(|hold| hold.guard == Guard::Watch);
            watched.for_each(|hold| hold.guard = Guard::Heartbeat);
        }
        self.tell_its_queue(event);
    }

    fn open(&mut self, directory: usize) {
        if self.queues.contains_key(&directory) {
            return;
        }
        let last = self.last_tickets.get(&directory).copied().unwrap_or_else(|| first_ticket(directory));
        self.queues.insert(directory, Pipe::new(self.mutant, last, self.far_beyond));
        if self.live {
            let seed = self.seed();
            self.tell(directory, Event::SessionBegan(seed));
        }
        if self.connected {
            self.tell(directory, Event::Connected);
        }
        if self.fresh {
            self.tell(directory, Event::TermBegan);
        }
    }

    /// Returns `true` if the client's planted bug is that it does not check which session owns a
    /// node. Curator does not check that either.
    fn believes_all_stats(&self) -> bool {
        matches!(self.mutant, Some(Mutant::Curator604 | Mutant::Curator498))
    }

    fn lose_connection(&mut self) {
        self.connection += 1;
        self.connected = false;
        self.suspend_keeping();
        let number = self.connection;
        self.on_session(|session, _| session.moved(number));
    }

    fn lose_session(&mut self) {
        self.lose_connection();
        self.live = false;
        self.forget_keeping();
        let lost = std::mem::take(&mut self.holds).into_keys().map(Notification::Lost);
        self.notifications.extend(lost);
        self.tell_all(&Event::SessionLost);
    }

    pub(super) fn tell(&mut self, directory: usize, event: Event) {
        if let Some(queue) = self.queues.get_mut(&directory) {
            queue.handle(event);
            self.unsettled = true;
        }
    }

    fn tell_all(&mut self, event: &Event) {
        for queue in self.queues.values_mut() {
            queue.handle(event.clone());
            self.unsettled = true;
        }
    }

    /// Passes a reply to the queue that sent the request. All queues receive a report that one of
    /// our nodes is missing, but only the queue that has this node reacts.
    fn tell_its_queue(&mut self, event: Event) {
        match ticket(&event) {
            Some(ticket) => self.tell(directory_of(ticket), event),
            None => self.tell_all(&event),
        }
    }

    fn seed(&mut self) -> u64 {
        if self.mutant != Some(Mutant::SeedKept) || self.seeds == 0 {
            self.seeds += 1;
        }
        // Put the number into bits that a uuid keeps.
        (self.number << 48) | (self.seeds << 16)
    }

    fn flush(&mut self) {
        self.check_term();
        // The execution of an action can produce another event for the queue.
        self.unsettled = true;
        while std::mem::take(&mut self.unsettled) {
            self.settle_locally();
            for directory in self.queues.keys().copied().collect::<Vec<_>>() {
                if let Some(queue) = self.queues.get_mut(&directory) {
                    queue.flush();
                }
                while let Some(action) = self.queues.get_mut(&directory).and_then(Pipe::next_action) {
                    self.act(directory, action);
                }
            }
        }
        let beats = self.session.as_ref().is_some_and(Session::beats);
        if self.live && self.connected && !self.fresh && !beats {
            self.send_heartbeat();
        }
        self.queues.retain(|directory, queue| {
            if queue.is_idle() {
                let last = self.last_tickets.entry(*directory).or_default();
                *last = queue.last_ticket().max(*last);
            }
            !queue.is_idle()
        });
    }

    /// Reads the clock. If the term has ended, ends all holds and deletes their nodes.
    fn check_term(&mut self) {
        let running = self.term_runs();
        if std::mem::replace(&mut self.running, running) && !running {
            self.end_keeping();
            for (node, hold) in std::mem::take(&mut self.holds) {
                self.notifications.push(Notification::Lost(node.clone()));
                self.mark_downgrades_late(&node);
                self.tell(hold.directory, Event::Release(node));
            }
        }
        let fresh = self.is_fresh();
        if std::mem::replace(&mut self.fresh, fresh) != fresh {
            self.tell_all(if fresh { &Event::TermBegan } else { &Event::TermEnded });
        }
    }

    /// Marks pending downgrades of this writer as late, because the writer is lost.
    fn mark_downgrades_late(&mut self, writer: &NodeName) {
        for input in &self.inbox {
            let Input::Join(_, reader, _, _, Intent::Downgrade { writer: of, .. }) = input else { continue };
            let place = self.waiting.get_mut(reader).and_then(|request| request.place.as_mut());
            if let Some(place) = place.filter(|_| **of == *writer) {
                place.late = true;
            }
        }
    }

    /// Sends a heartbeat to prove that the session exists, if an owner holds a lock or is about to
    /// hold one.
    fn send_heartbeat(&mut self) {
        let nodes: Vec<_> = self.queues.values().flat_map(Pipe::places).collect();
        let is_near = self.queues.values().any(Pipe::is_near);
        if !nodes.is_empty() && (!self.holds.is_empty() || is_near) {
            // Until a reply on this connection has proved the session, the client does not know
            // which session the server serves (rule 11).
            let proven = self.session.as_ref().is_some_and(Session::is_proven);
            let asks = !proven && self.mutant != Some(Mutant::BlindHeartbeat) && !self.believes_all_stats();
            self.requests.heartbeats += 1;
            self.send(Request::Heartbeat(nodes, asks));
        }
    }

    fn act(&mut self, directory: usize, action: Action) {
        match action {
            Action::Grant(join, node, czxid) => self.grant(directory, join, node, czxid),
            Action::Refuse(join, refusal) => self.refuse(join, &refusal),
            Action::NodeLost(node) => {
                self.unsettled |= self.local.is_some();
                if !self.forget_kept(&node) && self.holds.remove(&node).is_some() {
                    self.notifications.push(Notification::Lost(node));
                }
            }
            Action::Released(node) => self.notifications.push(Notification::Released(node)),
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
                let tries = self.waiting.get(&join).filter(|request| request.tries);
                self.tried.extend(tries.map(|request| TryAction::Creates(join, *request)));
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

    fn refuse(&mut self, join: JoinId, refusal: &Refusal) {
        for waiter in self.refused_waiters(join) {
            self.refuse_one(waiter, refusal.clone());
        }
    }

    fn refuse_one(&mut self, join: JoinId, refusal: Refusal) {
        if let Some(request) = self.waiting.remove(&join) {
            if refusal == Refusal::Busy {
                self.tried.push(TryAction::Busy(join, request));
            }
            if request.part {
                self.answers.insert(join, Answer::Refused);
            }
        }
        self.notifications.push(Notification::Refused(join, refusal));
    }

    fn grant(&mut self, directory: usize, join: JoinId, node: NodeName, czxid: Zxid) {
        let session = self.session.as_ref().expect("a grant needs a session").id;
        let Some(join) = self.granted_waiter(join) else {
            return self.tell(directory, Event::Release(node));
        };
        self.notifications.push(if self.is_fresh() {
            Notification::Granted(join)
        } else {
            Notification::Unfounded(join)
        });
        let request = self.waiting.remove(&join);
        let place = request.and_then(|request| request.place);
        let unwanted = if node.as_str().contains("-lease-") { Kind::Permit(u32::MAX) } else { node.kind() };
        let kind = request.map_or(unwanted, |request| request.kind);
        let part = request.is_some_and(|request| request.part);
        if part {
            self.answers.insert(join, Answer::Lease(node.clone()));
        }
        let (guard, node_of) = (Guard::None, node.clone());
        let shared = self.local.as_ref().and_then(|local| local.first(kind));
        let hold = Hold { join, directory, part, kind, place, node: node_of, czxid, session, guard, shared };
        self.holds.insert(node.clone(), hold);
        if request.is_none() {
            // The request was cancelled before the driver received the grant. No owner receives the
            // lease, so release it.
            return self.inbox.push_back(Input::Release(directory, node));
        }
        self.begin_keeping(kind);
        if let Some(other) = request.and_then(|request| request.other_half) {
            self.settle_other_half(directory, kind, other, node);
        }
    }

    /// Handles an owner that requested both halves of a read/write lock and now holds one of them.
    /// The owner's other request must not wait for the owner itself.
    fn settle_other_half(&mut self, directory: usize, kind: Kind, other: JoinId, node: NodeName) {
        if !self.waiting.contains_key(&other) {
            return;
        }
        if kind == Kind::Write {
            let Some(Hold { join, session, .. }) = self.holds.get(&node) else { return };
            let (sequence, late) = (node.sequence(), false);
            let place = Some(Place { session: *session, sequence, writer: *join, late });
            self.waiting.entry(other).and_modify(|request| request.place = place);
            self.begin_downgrade(&node);
            self.tell(directory, Event::Downgrade(other, node));
        } else {
            self.waiting.remove(&other);
            if !self.leave_locally(other) {
                self.tell(directory, Event::Leave(other));
            }
        }
    }

    fn send(&mut self, request: Request) {
        // Without a live session, drop the request, like all other requests of that session.
        if self.live {
            let at = self.session.as_ref().map_or(0, Session::time);
            let sent = Sent { request, connection: self.connection, at };
            self.on_session(|session, news| session.send(sent, news));
        }
    }
}

/// Returns the ticket of the request that an event answers.
fn ticket(event: &Event) -> Option<Ticket> {
    match event {
        Event::Created(ticket, _)
        | Event::CheckForbidden(ticket)
        | Event::ParentsMade(ticket, _)
        | Event::Listed(ticket, _)
        | Event::Probed(ticket, _)
        | Event::Verified(ticket, _)
        | Event::Watched(ticket, _)
        | Event::Gone(ticket)
        | Event::Changed(ticket)
        | Event::Deleted(ticket, _) => Some(*ticket),
        _ => None,
    }
}
