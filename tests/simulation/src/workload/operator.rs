//! Contenders' actions other than acquiring locks: requests to give up a lock, breaking a lock,
//! setting the number of permits, writing under a held lock, and listing contenders.

use zklock::{Error, ErrorKind, NodeData};

use super::{Attempt, Contender, Moment, milliseconds};
use crate::clients::CONNECT_TIMEOUT;
use crate::features::Feature;
use crate::locks::{COUNT, ELECTION, MOST, MUTEXES, RECORDS};
use crate::oracle::Granted;
use crate::{clock, network};

impl Contender {
    /// Returns a random node through which a contender holds a lock.
    fn any_node(&mut self) -> Option<String> {
        let nodes = self.oracle.borrow().certain_nodes();
        (!nodes.is_empty()).then(|| nodes[self.chance.index(nodes.len())].0.clone())
    }

    /// Asks a random holder to give up its lock.
    pub(super) async fn ask_an_owner(&mut self) {
        // Candidates of an election cannot be asked.
        let node = self.any_node().filter(|node| !node.starts_with(ELECTION));
        let Some(node) = node else { return };
        self.ask_for(&node).await;
    }

    /// Asks the owner of a node to give up its lock.
    pub(super) async fn ask_for(&mut self, node: &str) {
        self.now_does(&format!("asks for {node}"));
        self.oracle.borrow_mut().asks_owner(node, false);
        let asked = self.client().revoke(self.clients.below(self.of, node)).await;
        if asked.is_ok() {
            self.oracle.borrow_mut().asks_owner(node, true);
        }
        self.expect_found("a request to give up", node, asked);
    }

    /// Breaks a random lock.
    pub(super) async fn break_a_lock(&mut self) {
        if let Some(node) = self.any_node() {
            self.break_lock(&node).await;
        }
    }

    async fn break_lock(&self, node: &str) -> bool {
        self.break_through(self.of, node).await
    }

    /// Breaks the lock of a node through the client with this number.
    pub(super) async fn break_through(&self, of: usize, node: &str) -> bool {
        self.now_does(&format!("breaks {node}"));
        let certain = self.oracle.borrow().node_is_certain(node);
        self.oracle.borrow_mut().broken(node, false);
        let broken = self.clients.get(of).break_lock(self.clients.below(of, node)).await;
        let known = broken.is_ok();
        if known {
            self.oracle.borrow_mut().broken(node, true);
        }
        let connection = broken.as_ref().is_err_and(|error| error.kind() != ErrorKind::NotHeld);
        if connection || !certain {
            self.expect_found("breaking", node, broken);
        }
        known
    }

    /// Checks that a request about a node did not fail if the node existed before and after the
    /// request.
    fn expect_found(&self, what: &str, node: &str, outcome: Result<(), Error>) {
        let Err(error) = outcome else { return };
        let expected = match error.kind() {
            ErrorKind::NotHeld => !self.oracle.borrow().node_is_certain(node),
            kind => matches!(kind, ErrorKind::ConnectionFailed | ErrorKind::ClientClosed),
        };
        if !expected {
            self.violation(&format!("{what} of {node}: {error}"));
        }
    }

    /// Sets the number of permits of a semaphore.
    pub(super) async fn set_number(&mut self) {
        let number = self.chance.number(1..=MOST.into()).try_into().unwrap_or(1);
        if self.setting.private == Some(self.of) {
            return;
        }
        self.now_does(&format!("sets {number} permits"));
        let (began, (name, client)) = (self.now(), self.clients.named_now(self.of));
        let set = client.set_shared_count(self.clients.below(self.of, COUNT), number).await;
        match set.map_err(|error| (error.kind(), error)) {
            Ok(()) => self.oracle.borrow_mut().number_known = true,
            Err((ErrorKind::ClientClosed, _)) => {}
            Err((ErrorKind::ConnectionFailed, error)) => {
                // This error means that it is unknown whether the number was set. While no fault
                // has an effect, only a lost connection can cause it.
                let calm =
                    self.oracle.borrow().calm.lasts_since(began.at) || clock::now() < self.setting.tick;
                let lost = network::with(|network| network.has_opened_since(name, began.at));
                if calm && !lost && began.took() + 100 < milliseconds(CONNECT_TIMEOUT) {
                    self.violation(&format!("setting the number of permits: {error}"));
                }
            }
            Err((_, error)) => self.violation(&format!("setting the number of permits: {error}")),
        }
    }

    /// Writes data in a transaction that must fail if the contender does not hold the lock.
    /// Sometimes the lock is broken just before.
    pub(super) async fn transact(&mut self, granted: &[Granted], attempt: &Attempt) {
        let [granted] = granted else { return };
        let Some(which) = MUTEXES.iter().position(|path| *path == granted.place) else { return };
        self.now_does("writes");
        let record = self.clients.below(self.of, RECORDS[which]);
        let Some(found) = self.read(record).await else { return };
        let written = found.as_ref().and_then(|found| found.data.as_slice().try_into().ok());
        let written = written.map_or(0, i64::from_be_bytes);
        let token = granted.lease.fencing_token();
        if written > token && self.oracle.borrow().node_is_certain(&granted.node) {
            self.violation(&format!("{written} is written under {}, whose token is {token}", granted.node));
        }
        attempt.meets(Feature::Transacts);
        let gone = self.chance.percent(30) && self.break_lock(&granted.node).await;
        let transaction = granted.lease.transaction();
        let data = token.to_be_bytes();
        let transaction = match &found {
            Some(found) => transaction.set_data(record, &data, Some(found.version)),
            None => transaction.create(record, &data),
        };
        match transaction.commit().await.map_err(|error| (error.kind(), error)) {
            Ok(()) if gone => self.violation(&format!("{token} is written under a lock that is gone")),
            Ok(())
            | Err((
                ErrorKind::ConnectionFailed
                | ErrorKind::ClientClosed
                | ErrorKind::TransactionFailed
                | ErrorKind::NotHeld,
                _,
            )) => {}
            Err((ErrorKind::LockLost, _)) if !self.oracle.borrow().node_is_certain(&granted.node) => {}
            Err((_, error)) => self.violation(&format!("writing under {}: {error}", granted.node)),
        }
    }

    /// Reads a node. The client repeats the read while there is time.
    async fn read(&self, path: &str) -> Option<Option<NodeData>> {
        let began = self.now();
        let found = self.client().get(path).await;
        self.expect_answer("reading", began, found)
    }

    fn expect_answer<T>(&self, what: &str, began: Moment, answer: Result<T, Error>) -> Option<T> {
        match answer.map_err(|error| (error.kind(), error)) {
            Ok(answer) => return Some(answer),
            Err((ErrorKind::ClientClosed, _)) => {}
            Err((ErrorKind::ConnectionFailed, error)) => {
                let soon = began.took() + 100 < milliseconds(CONNECT_TIMEOUT);
                if soon && began.stops == self.stops() {
                    self.violation(&format!("{what} fails after {} ms: {error}", began.took()));
                }
            }
            Err((_, error)) => self.violation(&format!("{what}: {error}")),
        }
        None
    }

    /// Lists the contenders of a lock. A contender that holds the lock during the whole call must
    /// be in the list.
    pub(super) async fn list(&mut self) {
        let Some(node) = self.any_node() else { return };
        if let Some(place) =
            crate::locks::DIRECTORIES.iter().find(|place| node.starts_with(&format!("{place}/")))
        {
            self.list_place(place).await;
        }
    }

    pub(super) async fn list_place(&self, place: &str) {
        let before = self.oracle.borrow().certain_nodes();
        self.now_does(&format!("lists {place}"));
        let began = self.now();
        let Ok(lock) = zklock::Mutex::new(self.client(), self.clients.below(self.of, place)) else { return };
        let listed = zklock::Lock::from(lock).contenders().await;
        let Some(listed) = self.expect_answer("listing", began, listed) else { return };
        let listed: Vec<_> =
            listed.iter().map(|contender| self.clients.full(self.of, &contender.node)).collect();
        let oracle = self.oracle.borrow();
        // A lagging server does not know the node yet.
        let known = |since: u64| {
            self.setting.servers == 1
                || since + oracle.calm.soon() < began.at && oracle.calm.lasts_since(since)
        };
        let missing = before.iter().find(|(node, since)| {
            node.starts_with(&format!("{place}/"))
                && known(*since)
                && oracle.node_is_certain(node)
                && !listed.contains(node)
        });
        let missing = missing.cloned();
        drop(oracle);
        if let Some((node, _)) = missing {
            self.violation(&format!("{node} is not among {} contenders", listed.len()));
        }
    }
}
