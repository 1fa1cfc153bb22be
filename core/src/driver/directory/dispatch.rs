//! Sends the requests that a queue asks for.

use std::time::Duration;

use tokio::sync::oneshot;

use super::Directory;
use crate::driver::connection::Connection;
use crate::queue::{Action, JoinId};

impl Directory {
    pub(super) fn send(&mut self, request: Action, connection: &mut Connection) {
        // Without a session, no request can be sent. The requests of an earlier session were
        // dropped when it ended.
        let Some(directory_client) = connection.directory_client(self.id, &self.path) else { return };
        match request {
            Action::Create(ticket, join, prefix) => {
                let data =
                    self.waiters.of_contender(join).map(|attempt| attempt.data.clone()).unwrap_or_default();
                if self.queue.is_crowded() {
                    self.waiters.contend(join);
                }
                let pause = self.pause_before_create(join);
                if !pause.is_zero() {
                    self.delayed_creates.insert(ticket);
                    connection.spawn_request_later(pause, directory_client.create(ticket, prefix, data));
                } else if let Some(listing) = self.queue.next_listing() {
                    tracing::trace!(?listing, "listing together with the create");
                    // Nearly every acquire sends these two requests. One task takes less time and
                    // memory than two.
                    connection.spawn_proof_and_request(|unanswered| {
                        directory_client.create_and_list((ticket, listing), prefix, data, unanswered)
                    });
                } else {
                    connection.spawn_proof_request(directory_client.create(ticket, prefix, data));
                }
            }
            Action::CreateInPlace(ticket, join, name, check) => {
                let data = self.waiters.get(join).map(|attempt| attempt.data.clone()).unwrap_or_default();
                match check {
                    Some(writer) => {
                        connection
                            .spawn_proof_request(directory_client.create_beside(ticket, writer, name, data));
                    }
                    None => {
                        connection.spawn_proof_request(directory_client.create_in_place(ticket, name, data));
                    }
                }
            }
            Action::MakeParents(ticket) => {
                let place = self.waiters.attempts().next().map(|attempt| &attempt.holds.place);
                let lock = place.map_or(self.path.len(), |place| place.absolute_path().len());
                let make = directory_client.make_parents(ticket, lock);
                let pause = self.parents.get_or_insert_default().pause();
                if pause.is_zero() {
                    connection.spawn_proof_request(make);
                } else {
                    connection.spawn_request_later(pause, make);
                }
            }
            Action::List { ticket, sync } => connection.spawn_request(directory_client.list(ticket, sync)),
            Action::ListAndWatch { ticket, sync } => {
                if let Some(room) = self.watches.reserve_listing(ticket, connection) {
                    let (unanswered, answered) = oneshot::channel();
                    let task = connection.spawn(directory_client.list_and_watch(ticket, sync, unanswered));
                    connection.spawn_request(async move { drop(answered.await) });
                    self.watches.add_listing(ticket, task, room);
                } else {
                    connection.spawn_request(directory_client.list(ticket, sync));
                }
            }
            Action::Probe(ticket, names) => connection.spawn_request(directory_client.probe(ticket, names)),
            Action::Verify(ticket, name) => connection.spawn_request(directory_client.verify(ticket, name)),
            Action::Delete(ticket, name) => {
                self.releases.deleting(ticket, &name);
                // Other contenders wait behind this node until it is deleted or the session ends.
                // `spawn_proof_request` makes the driver give up the session if no reply to the
                // deletion arrives.
                connection.spawn_proof_request(directory_client.delete(ticket, name));
            }
            other => unreachable!("{other:?} is no request"),
        }
    }

    /// Returns the pause before a contender's node is created. It is zero if the lock directory was
    /// just created, because a reaper (a process that deletes empty lock directories) could delete
    /// the directory during a pause.
    pub(super) fn pause_before_create(&mut self, join: JoinId) -> Duration {
        let is_new = self.queue.has_new_directory(join);
        self.waiters
            .pacing(join)
            .map_or(Duration::ZERO, |pacing| if is_new { pacing.without_pause() } else { pacing.pause() })
    }
}
