//! Creates the clients of a simulation, replaces closed clients, and finds clients by number or
//! name.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use zklock::{Acl, Client, ClientOptions};

use crate::frame;
use crate::network;
use crate::setting::Setting;

/// Connect timeout of every client.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Number that is larger than any number of visits. The clients without read permission use visit
/// numbers from here on.
const APART: usize = 1 << 20;

/// All clients, by number. A new client replaces a closed one under the same number.
#[derive(Clone, Debug)]
pub struct Clients {
    setting: Setting,
    /// Each client with its name, see [`network::CLIENTS`].
    all: Rc<RefCell<Vec<(usize, Client)>>>,
}

impl Clients {
    /// Creates the setting's number of clients. None is connected yet.
    pub fn new(setting: Setting) -> Self {
        let all = (0..setting.clients).map(|number| (number, new(&setting, number))).collect();
        Self { setting, all: Rc::new(RefCell::new(all)) }
    }

    /// Returns the number of clients.
    pub fn count(&self) -> usize {
        self.setting.clients
    }

    /// Returns the client that currently has this number.
    pub fn get(&self, number: usize) -> Client {
        self.all.borrow()[number].1.clone()
    }

    /// Returns the client that currently has this number, and its name.
    pub fn named_now(&self, number: usize) -> (usize, Client) {
        self.all.borrow()[number].clone()
    }

    /// Returns the client with this name, unless it was closed.
    pub fn named(&self, name: usize) -> Option<Client> {
        let all = self.all.borrow();
        all.iter().find(|(one, _)| *one == name).map(|(_, client)| client.clone())
    }

    /// Replaces the client that has this number by a new client, as if its process had been
    /// restarted. Returns the old client.
    pub fn replace(&self, number: usize) -> Client {
        let (name, client) = &mut self.all.borrow_mut()[number];
        *name += network::CLIENTS;
        std::mem::replace(client, new(&self.setting, *name))
    }

    /// Creates a client for the visitor, a contender that uses a new client for each visit. Returns
    /// the client with its name. No other contender uses this client, and most faults do not affect
    /// it.
    pub fn visitors(&self, visit: usize) -> (usize, Client) {
        let name = self.count() + visit * network::CLIENTS;
        (name, new(&self.setting, name))
    }

    /// Creates a client that has no permission to read its own nodes, for a visit. Returns the
    /// client with its name.
    pub fn unable_to_read(&self, visit: usize) -> (usize, Client) {
        let name = self.count() + (APART + visit) * network::CLIENTS;
        (name, Client::new(options(&self.setting, name).acl(unreadable())))
    }

    /// Returns the chroot of a client.
    pub fn chroot(&self, number: usize) -> &'static str {
        self.setting.chroot(number)
    }

    /// Converts an absolute path to the form that a client uses below its chroot.
    pub fn below<'a>(&self, number: usize, path: &'a str) -> &'a str {
        path.strip_prefix(self.chroot(number)).unwrap_or(path)
    }

    /// Converts a client's path to an absolute path.
    pub fn full(&self, number: usize, path: &str) -> String {
        format!("{}{path}", self.chroot(number))
    }
}

fn new(setting: &Setting, name: usize) -> Client {
    let options = options(setting, name);
    let private = setting.private == Some(name % network::CLIENTS);
    Client::new(if private { options.acl(Acl::Creator) } else { options })
}

/// Permissions that let no client read a node.
fn unreadable() -> Acl {
    Acl::parse("world:anyone:cdwa").expect("rules")
}

fn options(setting: &Setting, name: usize) -> ClientOptions {
    let hosts = (0..setting.servers).map(|server| network::host(name, server));
    let hosts = hosts.collect::<Vec<_>>().join(",") + setting.chroot(name % network::CLIENTS);
    let options = ClientOptions::new(Some(&hosts)).expect("good hosts");
    let options = options.session_timeout(Duration::from_millis(setting.timeout)).expect("a good time-out");
    let options = match setting.private {
        Some(_) => options.auth("digest", frame::PASSWORD).expect("good credentials"),
        None => options,
    };
    // The data of each node contains the host name and the process ID. The seed does not determine
    // them, but no behavior depends on them.
    options.connect_timeout(CONNECT_TIMEOUT).expect("a good time-out")
}
