//! Models a session of the client crate, across reconnections and until its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zklock::queue::{Event, Outcome, Ticket};
use zklock::reply::SessionEvidence;

use super::clock::TimedTerm;
use super::connection::{Asker, Connection, Message};
use super::request::{Request, Sent};
use super::server::{Fired, Server, SessionId, Zxid, watched_directory};

/// The reports from the session to the driver, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    Connected,
    Disconnected,
    Expired,
    /// A reply shows that this session is over, although the connection continues.
    Over(SessionId),
    /// A heartbeat got a reply that does not show whether the session is alive.
    HeartbeatAnswered,
    Queue {
        connection: u64,
        event: Event,
    },
}

/// The client crate's session object.
#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The session that the servers see. It differs from `id` if the crate has adopted another
    /// session. The driver learns of that later.
    serving: SessionId,
    /// `true` if the server or the crate has given up the session.
    terminated: bool,
    /// `true` if the server could not restore the session and the crate adopted another one. The
    /// crate does not close the old session. The ensemble ends it after the session timeout.
    replaced: bool,
    /// The session that certainly still exists, because its last acknowledged write is recent.
    /// `None` if too much time has passed since that write.
    term: Option<SessionId>,
    /// The session's term (the time for which it certainly exists). `None` in scenes that do not
    /// model time.
    timed: Option<TimedTerm>,
    /// `true` if so much time has passed that the server may have ended the session. Replies to
    /// earlier requests no longer show that the session is alive.
    outlived: bool,
    /// Number of the connection, as the driver knows it.
    number: u64,
    /// `true` if a reply on this connection has shown that the session is alive.
    proven: bool,
    /// Requests that are not written yet. The crate keeps them over a reconnection.
    outbox: VecDeque<Sent>,
    /// Requests that are written and not answered yet.
    written: VecDeque<Sent>,
    connection: Option<Connection>,
    /// Requests of the last connection. The server of that connection may still execute them until
    /// the session moves to another server.
    ghosts: VecDeque<Sent>,
    /// The session in which `ghosts` were sent.
    left: SessionId,
    /// The requests that were in `ghosts` when the session moved to another server. The previous
    /// server can still execute them if the client first tried to reconnect to it. The late connect
    /// request is queued behind them, and moves the session back to that server.
    stale: VecDeque<Sent>,
    /// The last transaction that a *reply* reported. The crate does not update it from watch
    /// events. Only servers behind this transaction refuse the session.
    seen: Zxid,
    /// Acknowledged watches, each with the connection number of the task that waits for it.
    watchers: BTreeMap<Ticket, (String, u64)>,
    /// Watches that were dropped before they were acknowledged.
    cancelled: BTreeSet<Ticket>,
}

impl Session {
    pub(crate) fn begin(server: &mut Server, number: u64) -> Self {
        let id = server.begin_session();
        let mut session = Self {
            id,
            serving: id,
            terminated: false,
            replaced: false,
            term: None,
            timed: server.clock.as_ref().map(TimedTerm::new),
            outlived: false,
            number,
            proven: false,
            outbox: VecDeque::new(),
            written: VecDeque::new(),
            connection: None,
            ghosts: VecDeque::new(),
            left: id,
            stale: VecDeque::new(),
            seen: 0,
            watchers: BTreeMap::new(),
            cancelled: BTreeSet::new(),
        };
        session.connection = Some(session.connect(server, server.now));
        session
    }

    pub(crate) fn term_runs(&self) -> bool {
        self.timed.as_ref().map_or(self.term.is_some(), TimedTerm::runs)
    }

    /// Returns `true` if the session is certain to exist for long enough that a hold may begin on
    /// this connection.
    pub(crate) fn is_fresh(&self) -> bool {
        match &self.timed {
            Some(timed) => timed.is_fresh_on(self.number),
            None => self.proven,
        }
    }

    /// Returns the time, or 0 in scenes without a clock.
    pub(crate) fn time(&self) -> u64 {
        self.timed.as_ref().map_or(0, |timed| timed.now)
    }

    /// Updates the session's time from the clock.
    pub(crate) fn look_at_clock(&mut self, server: &Server) {
        match (&mut self.timed, &server.clock) {
            (Some(timed), Some(clock)) => timed.now = clock.now,
            (timed, Some(clock)) => *timed = Some(TimedTerm::new(clock)),
            (_, None) => {}
        }
    }

    /// Returns `true` if a reply has shown that the session is alive. The reply must be from the
    /// connection that the driver considers current.
    pub(crate) fn is_proven(&self) -> bool {
        self.timed.as_ref().map_or(self.proven, |timed| timed.is_proven_on(self.number))
    }

    /// Notes that the driver learned of a lost connection.
    pub(crate) fn moved(&mut self, number: u64) {
        self.number = number;
        self.proven = false;
    }

    fn asker(&self) -> Asker {
        Asker { serving: self.serving, known: self.id }
    }

    /// Ends the term (the time for which the session certainly exists), because the client received
    /// no reply for too long.
    pub(crate) fn end_term(&mut self) {
        self.term = None;
    }

    /// Lets enough time pass for the server to end the session. By then, the client no longer
    /// relies on the session, and replies to earlier requests do not change that. The safety of
    /// locks depends on this.
    pub(crate) fn outlive(&mut self) {
        self.term.take_if(|proven| *proven == self.id);
        self.outlived = true;
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced
    }

    /// Returns the session ids that the servers know for this session.
    pub(crate) fn all(&self) -> BTreeSet<SessionId> {
        BTreeSet::from([self.id, self.serving])
    }

    /// Returns `true` if a heartbeat is in flight.
    pub(crate) fn beats(&self) -> bool {
        let pending = self.outbox.iter().chain(&self.written);
        pending.map(|sent| &sent.request).any(|request| matches!(request, Request::Heartbeat(..)))
    }

    /// Returns the last transaction that the session's server has applied. Without a connection,
    /// returns the minimum that the next server must have applied.
    pub(crate) fn shows(&self) -> Zxid {
        self.connection.as_ref().map_or(self.seen, |connection| connection.at)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.connection.is_some()
    }

    /// Returns `true` if nothing is in flight in either direction.
    pub(crate) fn is_quiet(&self, server: &Server) -> bool {
        let quiet = |connection: &Connection| {
            connection.at == server.now && connection.requests.is_empty() && connection.replies.is_empty()
        };
        self.outbox.is_empty() && self.connection.as_ref().is_none_or(quiet)
    }

    pub(crate) fn has_unwritten(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub(crate) fn has_unserved(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.requests.is_empty())
    }

    pub(crate) fn has_unread(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.replies.is_empty())
    }

    pub(crate) fn has_ghosts(&self) -> bool {
        !self.ghosts.is_empty()
    }

    pub(crate) fn lags(&self, server: &Server) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| !connection.closed && !connection.deposed && connection.at < server.now)
    }

    pub(crate) fn is_deposed(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.deposed)
    }

    /// Cuts the server off from the majority. The server is the old leader or follows it.
    pub(crate) fn depose(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.deposed = true;
        }
    }

    /// Returns the watches that the server keeps for this session.
    pub(crate) fn server_watches(&self) -> BTreeSet<String> {
        self.connection.iter().flat_map(|connection| &connection.watches).cloned().collect()
    }

    pub(crate) fn watches_children(&self) -> bool {
        self.watchers.values().any(|(name, _)| watched_directory(name).is_some())
    }

    /// Returns the watches that the driver requested and did not drop, acknowledged or not.
    pub(crate) fn wanted_watches(&self) -> Vec<String> {
        let pending = self.outbox.iter().chain(&self.written).filter_map(|sent| sent.request.watches());
        let pending = pending.filter(|(ticket, _)| !self.cancelled.contains(ticket)).map(|(_, name)| name);
        self.watchers.values().map(|(name, _)| name.clone()).chain(pending).collect()
    }

    pub(crate) fn send(&mut self, sent: Sent, news: &mut VecDeque<News>) {
        if self.terminated {
            report(&sent, news);
        } else {
            self.outbox.push_back(sent);
        }
    }

    /// Drops a watch for the driver.
    pub(crate) fn unwatch(&mut self, ticket: Ticket, connection: u64) {
        if let Some((name, _)) = self.watchers.remove(&ticket) {
            self.remove_watch(name, connection);
        } else if self.is_pending(ticket) {
            self.cancelled.insert(ticket);
        }
    }

    fn is_pending(&self, ticket: Ticket) -> bool {
        let is_it = |sent: &Sent| sent.request.watches().is_some_and(|(other, _)| other == ticket);
        self.outbox.iter().chain(&self.written).any(is_it)
    }

    /// Asks the server to drop a watch, unless another request needs it.
    fn remove_watch(&mut self, name: String, connection: u64) {
        let wanted = self.wanted_watches().contains(&name);
        if !wanted && !self.terminated {
            let at = self.time();
            self.outbox.push_back(Sent { request: Request::Unwatch(name), connection, at });
        }
    }

    pub(crate) fn flush(&mut self, count: usize) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        for sent in self.outbox.drain(..count.min(self.outbox.len())) {
            self.written.push_back(sent.clone());
            connection.requests.push_back(sent);
        }
    }

    /// Returns `true` if the server may throttle the next request.
    pub(crate) fn may_throttle(&self) -> bool {
        let open = |connection: &&Connection| !connection.closed && !connection.is_stuck();
        let Some(connection) = self.connection.as_ref().filter(open) else { return false };
        let next = connection.requests.front().or_else(|| self.outbox.front());
        next.is_some_and(|sent| sent.request.is_throttled())
    }

    /// Lets the server reply that it is too busy for one request.
    pub(crate) fn throttle(&mut self) {
        if self.may_throttle()
            && let Some(connection) = &mut self.connection
            && let Some(sent) = connection.requests.pop_front()
        {
            let (reply, verdict) = connection.throttle(&sent.request);
            connection.replies.push_back(Message::Reply(reply, verdict, connection.at));
        }
    }

    /// Returns `true` if an event is on its way.
    pub(crate) fn has_event(&self) -> bool {
        let mut messages = self.connection.iter().flat_map(|connection| &connection.replies);
        messages.any(|message| matches!(message, Message::Fired(..)))
    }

    /// Drops a watch event that the server has sent.
    pub(crate) fn miss_event(&mut self) {
        if let Some(connection) = &mut self.connection
            && let Some(at) =
                connection.replies.iter().position(|message| matches!(message, Message::Fired(..)))
        {
            connection.replies.remove(at);
        }
    }

    pub(crate) fn serve(&mut self, server: &mut Server) {
        let asker = self.asker();
        let open = |connection: &&mut Connection| !connection.closed && !connection.is_stuck();
        let Some(connection) = self.connection.as_mut().filter(open) else {
            return;
        };
        let Some(sent) = connection.requests.pop_front() else {
            return;
        };
        if !connection.deposed && server.is_alive(self.serving) {
            server.hear(self.serving);
        }
        // A deposed server does not learn that the session is over.
        if !connection.deposed && !server.is_alive(self.serving) {
            connection.apply_to(server.now, self.serving, server);
            return;
        }
        let (reply, verdict) = connection.carry_out(asker, sent.request, server);
        connection.replies.push_back(Message::Reply(reply, verdict, connection.at));
    }

    /// Lets the server apply one more of the leader's transactions.
    pub(crate) fn advance(&mut self, server: &Server) {
        let open = |connection: &&mut Connection| !connection.closed && connection.at < server.now;
        if let Some(connection) = self.connection.as_mut().filter(open) {
            connection.apply_to(connection.at + 1, self.serving, server);
        }
    }

    pub(crate) fn catch_up(&mut self, server: &Server) {
        if let Some(connection) = self.connection.as_mut().filter(|connection| !connection.closed) {
            connection.apply_to(server.now, self.serving, server);
        }
    }

    pub(crate) fn receive(&mut self, news: &mut VecDeque<News>) {
        let Some(message) = self.connection.as_mut().and_then(|connection| connection.replies.pop_front())
        else {
            return;
        };
        match message {
            Message::Reply(event, verdict, zxid) => {
                self.seen = self.seen.max(zxid);
                let sent = self.written.pop_front().expect("a reply answers a request");
                let connection = sent.connection;
                self.judge(&sent, verdict, news);
                if let Some((ticket, name)) = sent.request.watches() {
                    let cancelled = self.cancelled.remove(&ticket);
                    let done = matches!(
                        event,
                        Some(Event::Watched(_, Outcome::Done(())) | Event::Listed(_, Outcome::Done(_)))
                    );
                    match (done, cancelled) {
                        (true, true) => self.remove_watch(name, connection),
                        (true, false) => drop(self.watchers.insert(ticket, (name, connection))),
                        (false, _) => {}
                    }
                    // The waiting task was aborted, so the reply is dropped.
                    if cancelled {
                        return;
                    }
                }
                news.extend(event.map(|event| News::Queue { connection, event }));
            }
            Message::Fired(name, fired) => {
                let tickets: Vec<_> = self
                    .watchers
                    .iter()
                    .filter(|(_, (on, _))| *on == name)
                    .map(|(ticket, _)| *ticket)
                    .collect();
                for ticket in tickets {
                    let (_, connection) = self.watchers.remove(&ticket).expect("just found");
                    let event = match fired {
                        Fired::Deleted => Event::Gone(ticket),
                        Fired::Changed => Event::Changed(ticket),
                    };
                    news.push_back(News::Queue { connection, event });
                }
            }
            Message::Closed => self.cut(news),
        }
    }

    /// Updates the session's state according to the evidence in a reply.
    fn judge(&mut self, sent: &Sent, verdict: SessionEvidence, news: &mut VecDeque<News>) {
        // Another client can have deleted the node too. A reply to a delete therefore shows that
        // the session is alive only if an earlier reply on this connection has shown it.
        let tells = !matches!(sent.request, Request::Delete(..)) || self.proven;
        let number = self.number;
        if let Some(timed) = &mut self.timed {
            if verdict == SessionEvidence::Alive && tells {
                timed.prove(sent.at, sent.connection, number);
            }
            // The term might have expired before the reply arrives. The driver then sends another
            // heartbeat.
            if matches!(sent.request, Request::Heartbeat(..)) {
                news.push_back(News::HeartbeatAnswered);
            }
        }
        match verdict {
            SessionEvidence::Alive if tells && sent.connection == self.number => {
                if !(self.outlived && self.serving == self.id) {
                    self.term = Some(self.serving);
                }
                self.proven = true;
            }
            SessionEvidence::Over => news.push_back(News::Over(self.id)),
            SessionEvidence::Unknown if matches!(sent.request, Request::Heartbeat(..)) => {
                news.push_back(News::HeartbeatAnswered);
            }
            SessionEvidence::Alive | SessionEvidence::Unknown => {}
        }
    }

    /// Breaks the connection. Requests that were not written are kept, and unanswered requests are
    /// lost.
    pub(crate) fn cut(&mut self, news: &mut VecDeque<News>) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        // A deposed server never commits the requests that it has not answered.
        self.left = self.serving;
        self.ghosts = if connection.deposed { VecDeque::new() } else { connection.requests };
        news.push_back(News::Disconnected);
        for sent in std::mem::take(&mut self.written) {
            self.lose(&sent, news);
        }
    }

    fn lose(&mut self, sent: &Sent, news: &mut VecDeque<News>) {
        let cancelled = sent.request.watches().is_some_and(|(ticket, _)| self.cancelled.remove(&ticket));
        if !cancelled {
            report(sent, news);
        }
    }

    /// Lets the server of the lost connection carry out one of the requests that had reached it.
    pub(crate) fn serve_ghost(&mut self, server: &mut Server) {
        if let Some(sent) = self.ghosts.pop_front().filter(|_| server.is_alive(self.left)) {
            let asker = Asker { serving: self.left, known: self.id };
            Connection::new(server.now).carry_out(asker, sent.request, server);
        }
    }

    /// Lets a previous server take the session back and carry out the requests that it had
    /// received. The client's current server closes the connection.
    pub(crate) fn take_back(&mut self, server: &mut Server) {
        let stale = std::mem::take(&mut self.stale);
        let Some(current) = self.connection.as_mut().filter(|_| !stale.is_empty()) else { return };
        if !server.is_alive(self.serving) {
            return;
        }
        let mut connection = Connection::new(server.now);
        for sent in stale {
            connection.carry_out(Asker { serving: self.serving, known: self.id }, sent.request, server);
        }
        current.closed = true;
        current.replies.push_back(Message::Closed);
    }

    pub(crate) fn has_old_requests(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Lets enough time pass that no previous server can still execute requests of the session.
    pub(crate) fn drop_old_requests(&mut self) {
        self.stale.clear();
    }

    /// Connects again, to a server that may be behind by up to `lag` transactions.
    pub(crate) fn reconnect(&mut self, server: &mut Server, lag: Zxid, news: &mut VecDeque<News>) {
        if self.is_up() || self.terminated {
            return;
        }
        self.stale.append(&mut self.ghosts);
        if server.is_alive(self.serving) {
            server.hear(self.serving);
            self.connection = Some(self.connect(server, (server.now - lag).max(self.seen)));
            news.push_back(News::Connected);
        } else {
            self.expire(news);
        }
    }

    /// Creates a connection with the watches set again. Watches on deleted or changed nodes fire.
    fn connect(&self, server: &Server, at: Zxid) -> Connection {
        let mut connection = Connection::new(at);
        for (name, _) in self.watchers.values() {
            if !server.can_watch(name, at) {
                connection.replies.push_back(Message::Fired(name.clone(), Fired::Deleted));
            } else if (self.seen + 1..=at).any(|zxid| server.fired(name, zxid).is_some()) {
                connection.replies.push_back(Message::Fired(name.clone(), Fired::Changed));
            } else {
                connection.watches.insert(name.clone());
            }
        }
        connection
    }

    /// Ends the session because the server reported its end. Requests that were not written are
    /// lost.
    fn expire(&mut self, news: &mut VecDeque<News>) {
        self.terminated = true;
        news.push_back(News::Expired);
        for sent in std::mem::take(&mut self.outbox) {
            self.lose(&sent, news);
        }
    }

    /// Makes the crate give up the session while there is no connection. Requests that were not
    /// written are dropped without a report, because the driver aborts its tasks when a session
    /// ends.
    pub(crate) fn give_up(&mut self, news: &mut VecDeque<News>) {
        if !self.is_up() && !self.terminated {
            self.abandon();
            news.push_back(News::Expired);
        }
    }

    /// Makes the driver give up the session together with all its tasks.
    pub(crate) fn abandon(&mut self) {
        self.terminated = true;
        self.term = None;
        if let Some(timed) = &mut self.timed {
            timed.end();
        }
        self.connection = None;
        self.outbox.clear();
        self.written.clear();
    }

    /// Adopts another session from a server that cannot restore this one. The driver learns of this
    /// immediately.
    pub(crate) fn replace(&mut self, news: &mut VecDeque<News>) {
        if !self.is_up() && !self.terminated {
            self.replaced = true;
            self.give_up(news);
        }
    }

    /// Adopts another session from a server that cannot restore this one. The crate keeps its
    /// requests and watches, and reports only that it is connected again. The driver therefore
    /// believes that the session is unchanged.
    pub(crate) fn adopt(&mut self, server: &mut Server, lag: Zxid, news: &mut VecDeque<News>) {
        if !self.is_up() && !self.terminated {
            self.replaced = true;
            self.serving = server.begin_session();
            self.connection = Some(self.connect(server, (server.now - lag).max(self.seen)));
            news.push_back(News::Connected);
        }
    }

    /// Kills the client's process. The servers may still carry out its written requests.
    pub(crate) fn kill(&mut self) {
        self.cut(&mut VecDeque::new());
        self.abandon();
    }
}

fn report(sent: &Sent, news: &mut VecDeque<News>) {
    news.extend(sent.request.lost().map(|event| News::Queue { connection: sent.connection, event }));
}
