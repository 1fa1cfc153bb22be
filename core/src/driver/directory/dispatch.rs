//! What a queue asks of the server.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Directory;
use crate::driver::connection::Connection;
use crate::queue::Action;

impl Directory {
    pub(super) fn send(&mut self, request: Action, path: &Arc<str>, link: &mut Connection) {
        // Without a session the queue asks for nothing; what it asked for before is forgotten with the session.
        let Some(wire) = link.wire(path) else { return };
        match request {
            Action::Create(ticket, join, prefix) => {
                let data = self.waiters.get(join).map(|attempt| attempt.data.clone()).unwrap_or_default();
                if self.queue.is_crowded() {
                    self.waiters.contend(join);
                }
                let create = wire.create(ticket, prefix, data);
                let pause = self.waiters.rest(join);
                if pause.is_zero() {
                    link.ask(create);
                } else {
                    self.late.insert(ticket);
                    link.question_later(pause, create);
                }
            }
            Action::CreateInPlace(ticket, join, name, check) => {
                let data = self.waiters.get(join).map(|attempt| attempt.data.clone()).unwrap_or_default();
                match check {
                    Some(writer) => link.ask(wire.create_beside(ticket, writer, name, data)),
                    None => link.ask(wire.create_in_place(ticket, name, data)),
                }
            }
            Action::MakeParents(ticket) => {
                let place = self.waiters.attempts().next().map(|attempt| &attempt.holds.place);
                let lock = place.map_or(path.len(), |place| place.absolute_path().len());
                link.ask(wire.make_parents(ticket, lock));
            }
            Action::List { ticket, sync } => link.question(wire.list(ticket, sync)),
            Action::ListAndWatch { ticket, sync } => {
                if let Some(room) = self.watches.reserve_listing(ticket, link) {
                    let (unanswered, answered) = oneshot::channel();
                    let task = link.spawn(wire.list_and_watch(ticket, sync, unanswered));
                    link.question(async move { drop(answered.await) });
                    self.watches.add_listing(ticket, task, room);
                } else {
                    link.question(wire.list(ticket, sync));
                }
            }
            Action::Probe(ticket, names) => link.question(wire.probe(ticket, names)),
            Action::Verify(ticket, name) => link.question(wire.verify(ticket, name)),
            Action::Delete(ticket, name) => {
                self.releases.deleting(ticket, &name);
                // Others wait behind the node, as long as the session lives.
                link.ask(wire.delete(ticket, name));
            }
            other => unreachable!("{other:?} is no request"),
        }
    }
}
