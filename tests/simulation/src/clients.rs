//! The clients of a simulation: how they are made, and which one has which number now.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use zklock::{Acl, Client, ClientOptions};

use crate::frame;
use crate::network;
use crate::setting::Setting;

/// For how long a client without a connection is patient.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// So many visits nobody makes.
const APART: usize = 1 << 20;

/// All clients, by number. One that was closed has a successor.
#[derive(Clone, Debug)]
pub struct Clients {
    setting: Setting,
    /// With what each is called, see [`network::CLIENTS`].
    all: Rc<RefCell<Vec<(usize, Client)>>>,
}

impl Clients {
    /// As many as the setting says. None of them has connected.
    pub fn new(setting: Setting) -> Self {
        let all = (0..setting.clients).map(|number| (number, new(&setting, number))).collect();
        Self { setting, all: Rc::new(RefCell::new(all)) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.setting.clients
    }

    /// The client that has this number now.
    pub fn get(&self, number: usize) -> Client {
        self.all.borrow()[number].1.clone()
    }

    /// The client that has this number now, and what it is called.
    pub fn named_now(&self, number: usize) -> (usize, Client) {
        self.all.borrow()[number].clone()
    }

    /// The client that is called so, if it was not closed.
    pub fn named(&self, name: usize) -> Option<Client> {
        let all = self.all.borrow();
        all.iter().find(|(one, _)| *one == name).map(|(_, client)| client.clone())
    }

    /// Gives a number to a new client, as if its process had been started anew, and returns the old one.
    pub fn replace(&self, number: usize) -> Client {
        let (name, client) = &mut self.all.borrow_mut()[number];
        *name += network::CLIENTS;
        std::mem::replace(client, new(&self.setting, *name))
    }

    /// The visitor's client at this visit, and what it is called. Nobody else uses it, and most faults spare it.
    pub fn visitors(&self, visit: usize) -> (usize, Client) {
        let name = self.count() + visit * network::CLIENTS;
        (name, new(&self.setting, name))
    }

    /// A client of the visitor's that may not read its own nodes, and what it is called.
    pub fn blindfolded(&self, visit: usize) -> (usize, Client) {
        let name = self.count() + (APART + visit) * network::CLIENTS;
        (name, Client::new(options(&self.setting, name).acl(unreadable())))
    }

    /// Below which path a client sees everything.
    pub fn chroot(&self, number: usize) -> &'static str {
        self.setting.chroot(number)
    }

    /// A path from the root, as a client has to write it.
    pub fn below<'a>(&self, number: usize, path: &'a str) -> &'a str {
        path.strip_prefix(self.chroot(number)).unwrap_or(path)
    }

    /// The path of a node from the root, as a client wrote it.
    pub fn full(&self, number: usize, path: &str) -> String {
        format!("{}{path}", self.chroot(number))
    }
}

fn new(setting: &Setting, name: usize) -> Client {
    let options = options(setting, name);
    let private = setting.private == Some(name % network::CLIENTS);
    Client::new(if private { options.acl(Acl::Creator) } else { options })
}

/// Rights with which nobody can read a node.
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
    // Its nodes say who made them, so that each can be traced to an attempt. That host and process have nothing to do
    // with the seed is no matter: nothing depends on them.
    options.connect_timeout(CONNECT_TIMEOUT).expect("a good time-out")
}
