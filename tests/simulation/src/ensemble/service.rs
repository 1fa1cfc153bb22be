//! Processes clients' requests at a server: answers reads from the replica, and forwards changes to
//! the leader.

use zklock_embedded::Output;

use super::server::{Change, Front, Role, Waiting};
use super::{Ensemble, ServerMessage, time};
use crate::clock;
use crate::critical_request::CriticalRequest;
use crate::frame::{self, Kind};
use crate::network::{self, Direction, Id, Packet};

impl Ensemble {
    /// Delivers a packet to a server.
    pub fn arrive(&mut self, server: usize, id: Id, packet: Packet) {
        self.spring(server, id, &packet);
        let one = &mut self.servers[server];
        if one.up && one.frozen {
            if matches!(packet, Packet::Open) {
                // The operating system of a stopped server still accepts connections.
                network::with(|network| network.send(id, Direction::ToClient, Packet::Open));
            }
            return self.backlog.entry(server).or_default().push((id, packet));
        }
        match packet {
            Packet::Open if !one.up => {
                network::with(|network| network.send(id, Direction::ToClient, Packet::Reset));
            }
            Packet::Open => {
                one.fronts.insert(id, Front::new());
                network::with(|network| network.send(id, Direction::ToClient, Packet::Open));
                if one.role == Role::Out {
                    self.hang_up(server, id, Packet::Close);
                }
            }
            Packet::Bytes(bytes) => {
                let forgetful = one.forgetful;
                let Some(front) = one.fronts.get_mut(&id) else { return };
                if !front.receive(&bytes, forgetful) {
                    return self.hang_up(server, id, Packet::Close);
                }
                let session = front.session;
                if one.role == Role::Leads {
                    self.sessions.touch(session, clock::now());
                } else {
                    one.heard.insert(session);
                }
                self.serve(server, id);
            }
            Packet::Close | Packet::Reset => drop(one.fronts.remove(&id)),
        }
    }

    /// Processes a connection's requests in order, as far as possible.
    pub(super) fn serve(&mut self, server: usize, id: Id) {
        loop {
            let one = &mut self.servers[server];
            let Some(front) = one.fronts.get_mut(&id) else { return };
            match front.waiting {
                Some(Waiting::Applied(far)) if one.applied >= far => {
                    front.waiting = None;
                    if let Some(sync) = front.requests.pop_front() {
                        let outputs = one.answer(id, &sync, time());
                        self.output(server, outputs);
                    }
                    continue;
                }
                Some(_) => return,
                None => {}
            }
            let Some(request) = front.requests.front().cloned() else { return };
            let turned_away = matches!(request.kind, Kind::Read | Kind::Write)
                && !frame::authenticates(&request.frame)
                && one.throttles > 0
                && self.chance.percent(one.throttles);
            if turned_away {
                front.requests.pop_front();
                let reply = Packet::Bytes(frame::refusal(&request.frame, frame::THROTTLED));
                network::with(|network| network.send(id, Direction::ToClient, reply));
                continue;
            }
            if frame::asks_stranger(&request.frame) {
                front.requests.pop_front();
                let reply = Packet::Bytes(frame::refusal(&request.frame, frame::NO_AUTH));
                network::with(|network| network.send(id, Direction::ToClient, reply));
                continue;
            }
            if !self.containers && frame::creates_container(&request.frame) {
                front.requests.pop_front();
                let reply = Packet::Bytes(frame::refusal(&request.frame, frame::UNIMPLEMENTED));
                network::with(|network| network.send(id, Direction::ToClient, reply));
                continue;
            }
            let critical_request = self.critical_request.filter(|(_, until)| clock::now() <= *until);
            let kind = critical_request
                .map(|(kind, _)| kind)
                .or_else(|| network::with(|network| network.critical_request(id)));
            let kind = kind.filter(|kind| frame::is_critical(&request.frame, *kind));
            front.deaf |= front.deaf_next || kind.is_some_and(|kind| kind != CriticalRequest::AfterDelete);
            front.deaf_next |= kind.is_some();
            if front.deaf && !matches!(request.kind, Kind::Ping) {
                front.requests.pop_front();
                continue;
            }
            match request.kind {
                Kind::Sync => {
                    front.waiting = Some(Waiting::Synced);
                    self.ask_leader(server, ServerMessage::Sync(id));
                }
                Kind::Word | Kind::Ping | Kind::Read => {
                    front.requests.pop_front();
                    let outputs = self.servers[server].answer(id, &request, time());
                    self.answer(server, outputs, &request.frame);
                }
                // The client has seen a later transaction than this server has applied. Like
                // ZooKeeper, the server closes the connection.
                Kind::Connect { last_zxid, .. } if last_zxid > self.servers[server].zxid(time()) => {
                    return self.hang_up(server, id, Packet::Close);
                }
                Kind::Connect { .. } | Kind::Write | Kind::Close => {
                    if let Some(front) = self.servers[server].fronts.get_mut(&id) {
                        front.requests.pop_front();
                        front.waiting = Some(Waiting::Written);
                    }
                    let change = Change::Request(id, request.message, request.kind);
                    self.ask_leader(server, ServerMessage::Forward(change));
                }
            }
        }
    }

    /// Sends a message to the server that this server believes to be the leader. If it knows no
    /// leader, the message is dropped.
    pub(super) fn ask_leader(&mut self, server: usize, message: ServerMessage) {
        let leader = match self.servers[server].role {
            Role::Leads | Role::StillLeads => Some(server),
            Role::Follows => self.leader,
            Role::Out => None,
        };
        if let Some(leader) = leader {
            self.say(server, leader, message);
        }
    }

    pub(super) fn output(&mut self, server: usize, outputs: Vec<Output>) {
        self.answer(server, outputs, &[]);
    }

    /// Sends the messages that a request or an event has produced.
    fn answer(&mut self, server: usize, outputs: Vec<Output>, request: &[u8]) {
        for output in outputs {
            match output {
                Output::Send(_, message)
                    if self.servers[server].mute && frame::is_event(&message.frame()) => {}
                Output::Send(id, message) if self.servers[server].fronts.contains_key(&id.0) => {
                    network::with(|network| {
                        let reply = frame::without_stranger(request, message.frame());
                        network.send(id.0, Direction::ToClient, Packet::Bytes(reply));
                    });
                }
                Output::Send(..) => {}
                Output::Close(id) => self.hang_up(server, id.0, Packet::Close),
            }
        }
    }

    pub(super) fn hang_up(&mut self, server: usize, id: Id, how: Packet) {
        if self.servers[server].fronts.remove(&id).is_some() {
            network::with(|network| network.send(id, Direction::ToClient, how));
        }
    }
}
