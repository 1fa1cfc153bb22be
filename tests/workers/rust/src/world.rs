//! The clients, locks and leases that commands have created, with one method for each command. All methods use the same
//! tables of names, so they are in one file.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use zklock::{
    AnyLock, Client, ClientOptions, ClientSource, Election, ErrorKind, Lease, MultiLock, NodeData, Owner,
    Timeout,
};

use crate::answers::{Answer, Failure, answer, health, stats, tell, tell_loss, unknown};
use crate::arguments::{RUST, options, with};
use crate::command::{Command, Contend, LockObject, Objects, Once, OneLock, Options};
use crate::holds::{hold_often, hold_once, release};
use crate::lockable::{Lockable, Manner, candidate, describe, permits};
use crate::process::{exchange, threads};
use crate::{log, now, write};

type Job = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
pub(crate) struct World {
    clients: RefCell<HashMap<String, Client>>,
    locks: RefCell<HashMap<String, Rc<Lockable>>>,
    /// Leases by name. A name stands for one lease, or for all leases of one acquire.
    leases: RefCell<HashMap<String, Vec<Rc<Lease>>>>,
    owners: RefCell<HashMap<String, (Owner, mpsc::UnboundedSender<Job>)>>,
    pending: RefCell<HashMap<String, oneshot::Sender<()>>>,
    /// Locks without a name, which are held until the process ends.
    held: RefCell<Vec<(zklock::Mutex, Lease)>>,
}

impl World {
    /// Starts a command. Its reply follows when it is complete.
    pub(crate) fn obey(self: &Rc<Self>, id: Value, command: Command) {
        let world = Rc::clone(self);
        let owner = match &command {
            Command::Acquire { owner, .. }
            | Command::Try { owner, .. }
            | Command::Tell { owner, .. }
            | Command::Enter { owner, .. }
            | Command::Leave { owner, .. }
            | Command::Cycles { owner, .. }
            | Command::Hold { owner, .. }
            | Command::Once(Once { owner, .. }) => Some(owner.clone()),
            Command::Release { owner, .. } => owner.clone(),
            _ => None,
        };
        // Register the acquire immediately, so that a later cancel command finds it.
        let cancelled = matches!(command, Command::Acquire { .. }).then(|| {
            let (cancel, cancelled) = oneshot::channel();
            self.pending.borrow_mut().insert(id.to_string(), cancel);
            cancelled
        });
        let job = async move {
            let outcome = match cancelled {
                None => world.run(&id, command).await,
                Some(cancelled) => {
                    let outcome = tokio::select! {
                        outcome = world.run(&id, command) => outcome,
                        Ok(()) = cancelled => Ok(json!({"event": "cancelled"})),
                    };
                    world.pending.borrow_mut().remove(&id.to_string());
                    outcome
                }
            };
            answer(&id, outcome);
        };
        match owner {
            Some(owner) => drop(self.owner(&owner).1.send(Box::pin(job))),
            None => drop(spawn_local(job)),
        }
    }

    /// Returns an owner and its queue of jobs. An owner runs one job at a time.
    fn owner(&self, name: &str) -> (Owner, mpsc::UnboundedSender<Job>) {
        let mut owners = self.owners.borrow_mut();
        let new = || {
            let (sender, mut jobs) = mpsc::unbounded_channel::<Job>();
            spawn_local(async move {
                while let Some(job) = jobs.recv().await {
                    job.await;
                }
            });
            (Owner::named(name), sender)
        };
        owners.entry(name.to_owned()).or_insert_with(new).clone()
    }

    #[expect(clippy::too_many_lines, reason = "a few for each command")]
    async fn run(self: &Rc<Self>, id: &Value, command: Command) -> Answer {
        match command {
            Command::Connect { client, hosts, options: given } => {
                self.connect(client, options(hosts.as_deref(), given)?).await
            }
            Command::Client { lock, client } => self.client_of(&lock, client),
            Command::Lock(LockObject::Several { lock, members }) => {
                let made = self.several(&members)?;
                self.locks.borrow_mut().insert(lock, Rc::new(made));
                Ok(json!({"event": "ready"}))
            }
            Command::Lock(LockObject::One(object)) => {
                let OneLock { reentrant, label, naming, candidate, .. } = object;
                let max_hold = object.max_hold.map(|time| RUST.duration("max_hold", time)).transpose()?;
                let (max_waiters, cohort) = (object.max_waiters, object.cohort);
                let linger = object.linger.map(|time| RUST.duration("linger", time)).transpose()?;
                let manner =
                    Manner { reentrant, label, naming, candidate, max_hold, max_waiters, cohort, linger };
                let source =
                    self.source(object.client.as_deref(), object.hosts.as_deref(), *object.options)?;
                let permits = permits(object.permits, object.shared_count.as_deref());
                let made = Lockable::new(source, &object.path, object.kind, permits, manner)?;
                self.locks.borrow_mut().insert(object.lock, Rc::new(made));
                Ok(json!({"event": "ready"}))
            }
            Command::Acquire { lock, lease, owner, timeout, count } => {
                let timeout = RUST.timeout(timeout)?;
                self.acquire(&lock, &lease, &owner, timeout, count, "timeout").await
            }
            Command::Try { lock, lease, owner, count } => {
                self.acquire(&lock, &lease, &owner, Timeout::Try, count, "busy").await
            }
            Command::Release { lease, wait, timeout, .. } => {
                let leases = self.leases(&lease)?;
                let timeout = RUST.releasing(wait.unwrap_or(true), timeout)?;
                let t0 = now();
                release(&leases, timeout).await?;
                Ok(json!({"event": "released", "t0": t0}))
            }
            Command::Enter { lock, scope, owner, timeout, connect_timeout } => {
                let lock = self.lock(&lock)?;
                let timeout = RUST.bounded(RUST.timeout(timeout)?, connect_timeout)?;
                let leases = lock.acquire(&self.owner(&owner).0, timeout, None).await?;
                let mut line = json!({"event": "entered"});
                if let Some(first) = leases.first() {
                    tell(&mut line, first);
                }
                self.leases.borrow_mut().insert(scope, leases.into_iter().map(Rc::new).collect());
                Ok(line)
            }
            Command::Leave { scope, .. } => self.leave(&scope).await,
            Command::Unlock | Command::Scrape => Ok(json!({"event": "unsupported"})),
            Command::Owned { lock, owner } => {
                Ok(match self.lock(&lock)?.owned_by(&self.owner(&owner).0)? {
                    Some(owned) => json!({"event": "value", "value": owned}),
                    None => json!({"event": "unsupported"}),
                })
            }
            Command::Locked { lock } => match self.lock(&lock)?.one() {
                Some(lock) => Ok(json!({"event": "value", "value": lock.locked().await?})),
                None => Ok(json!({"event": "unsupported"})),
            },
            Command::Contenders { lock } => match self.lock(&lock)?.one() {
                Some(lock) => {
                    let contenders: Vec<Value> = lock.contenders().await?.iter().map(describe).collect();
                    Ok(json!({"event": "value", "value": contenders}))
                }
                None => Ok(json!({"event": "unsupported"})),
            },
            Command::Shown { lock } => match self.lock(&lock)?.one() {
                Some(lock) => {
                    let contenders = lock.contenders().await?;
                    let shown = contenders.iter().map(|contender| format!("{contender:?}"));
                    let shown: Vec<_> = [format!("{lock:?}")].into_iter().chain(shown).collect();
                    Ok(json!({"event": "value", "value": shown}))
                }
                None => Ok(json!({"event": "unsupported"})),
            },
            Command::Log => {
                log::listen();
                Ok(json!({"event": "listening"}))
            }
            Command::Check { lease } => {
                for lease in self.leases(&lease)? {
                    lease.check()?;
                }
                Ok(json!({"event": "value", "value": "held"}))
            }
            Command::State { lease } => {
                let (lease, t0) = (self.first_lease(&lease)?, now());
                let (state, remaining) = (lease.state().as_str(), lease.remaining().as_secs_f64());
                Ok(json!({"event": "value", "value": state, "t0": t0, "remaining": remaining}))
            }
            Command::Cancel { target } => {
                if let Some(cancel) = self.pending.borrow_mut().remove(&target.to_string()) {
                    cancel.send(()).ok();
                }
                Ok(json!({"event": "cancelled"}))
            }
            Command::Listen { lease } => {
                let revoked = self.first_lease(&lease)?.revoked();
                spawn_local(async move {
                    revoked.await;
                    write(json!({"event": "revoked", "lease": lease}));
                });
                Ok(json!({"event": "listening"}))
            }
            Command::Revoke { client, node } => {
                self.client(&client)?.revoke(&node).await?;
                Ok(json!({"event": "done"}))
            }
            Command::Break { client, node } => {
                self.client(&client)?.break_lock(&node).await?;
                Ok(json!({"event": "done"}))
            }
            Command::Transact { lease, operations } => {
                let lease = self.first_lease(&lease)?;
                operations.into_iter().fold(lease.transaction(), with).commit().await?;
                Ok(json!({"event": "done"}))
            }
            Command::Tell { address, text, .. } => {
                Ok(json!({"event": "value", "value": exchange(&address, &text)?}))
            }
            Command::Contend(contend) => self.contend(id, contend).await,
            Command::Cycles { lock, owner, count, wait } => {
                let (lock, owner) = (self.lock(&lock)?, self.owner(&owner).0);
                let start = now();
                for _ in 0..count {
                    let leases = lock.acquire(&owner, Timeout::Forever, None).await?;
                    let leases: Vec<_> = leases.into_iter().map(Rc::new).collect();
                    release(&leases, RUST.releasing(wait.unwrap_or(true), None)?).await?;
                }
                Ok(json!({"event": "done", "elapsed_ns": now() - start}))
            }
            Command::Get { client, node } => {
                let found = self.client(&client)?.get(&node).await?;
                let shown = |found: NodeData| json!({"data": String::from_utf8_lossy(&found.data), "version": found.version});
                Ok(json!({"event": "value", "value": found.map(shown)}))
            }
            Command::Count { client, node, count } => {
                self.client(&client)?.set_shared_count(&node, count).await?;
                Ok(json!({"event": "done"}))
            }
            Command::Leads { lock } => {
                Ok(json!({"event": "value", "value": self.election(&lock)?.is_leader()}))
            }
            Command::Leader { lock } => {
                let leader = self.election(&lock)?.leader().await?;
                Ok(json!({"event": "value", "value": leader.as_ref().map(candidate)}))
            }
            Command::Candidates { lock } => {
                let candidates = self.election(&lock)?.candidates().await?;
                let candidates: Vec<_> = candidates.iter().map(candidate).collect();
                Ok(json!({"event": "value", "value": candidates}))
            }
            Command::Observe { lock } => {
                let mut leaders = self.election(&lock)?.observe();
                spawn_local(async move {
                    while let Ok(leader) = leaders.next().await {
                        let leader = leader.as_ref().map(candidate);
                        write(json!({"event": "leader", "lock": lock, "leader": leader}));
                    }
                });
                Ok(json!({"event": "listening"}))
            }
            Command::Hold { client, path, first, count, owner } => {
                let (client, owner) = (self.client(&client)?, self.owner(&owner).0);
                for number in first..first + count {
                    let lock = zklock::Mutex::new(&client, format!("{path}/{number}"))?;
                    let lease = lock.acquire_as(&owner, Timeout::Forever).await?;
                    self.held.borrow_mut().push((lock, lease));
                }
                Ok(json!({"event": "done"}))
            }
            Command::Once(once) => {
                let client = self.client(&once.client)?;
                let owner = self.owner(&once.owner).0;
                Ok(json!({"event": "done", "count": hold_once(id, &client, &owner, once).await?}))
            }
            Command::Stats { client } => {
                Ok(json!({"event": "value", "value": stats(&self.client(&client)?.stats())}))
            }
            Command::Health { client } => {
                let (client, t0) = (self.client(&client)?, now());
                Ok(json!({"event": "value", "value": health(&client.health()), "t0": t0}))
            }
            Command::Close { client } => {
                let client = self.client(&client)?;
                client.close().await?;
                Ok(json!({"event": "closed"}))
            }
            Command::Threads => Ok(json!({"event": "value", "value": threads()})),
            Command::Exit => Ok(json!({"event": "bye"})),
        }
    }

    async fn connect(&self, name: String, options: ClientOptions) -> Answer {
        let client = Client::new(options);
        client.ready().await?;
        let session = client.session_id().to_string();
        let (mut states, client_name) = (client.states(), name.clone());
        spawn_local(async move {
            while let Some(state) = states.next().await {
                write(json!({"event": "state", "client": client_name, "state": state.as_str()}));
            }
        });
        self.clients.borrow_mut().insert(name, client);
        Ok(json!({"event": "connected", "session": session}))
    }

    /// Gives a name to the client of a lock.
    fn client_of(&self, lock: &str, name: String) -> Answer {
        let client = match self.lock(lock)?.one() {
            Some(AnyLock::Lock(lock)) => lock.client()?,
            Some(AnyLock::Semaphore(semaphore)) => semaphore.client()?,
            _ => return Ok(json!({"event": "unsupported"})),
        };
        let session = client.session_id().to_string();
        self.clients.borrow_mut().insert(name, client);
        Ok(json!({"event": "value", "value": session}))
    }

    /// Ends a scope: releases its leases, because Rust has no scopes. If a lease was lost, the reply is an error.
    async fn leave(&self, scope: &str) -> Answer {
        let leases = self.leases.borrow_mut().remove(scope).ok_or_else(|| unknown("scope", scope))?;
        let remaining = leases.iter().map(|lease| lease.remaining()).max().unwrap_or_default();
        let t0 = now();
        release(&leases, Timeout::Forever).await?;
        let lost = leases.iter().find(|lease| lease.loss_reason().is_some());
        lost.map_or(Ok(()), |lease| lease.check())?;
        Ok(json!({"event": "left", "t0": t0, "remaining": remaining.as_secs_f64()}))
    }

    fn source(
        &self,
        client: Option<&str>,
        hosts: Option<&str>,
        given: Options,
    ) -> Result<ClientSource, Failure> {
        match client {
            Some(client) => Ok(ClientSource::from(&self.client(client)?)),
            None => Ok(options(hosts, given)?.into()),
        }
    }

    async fn acquire(
        self: &Rc<Self>,
        lock: &str,
        name: &str,
        owner: &str,
        timeout: Timeout,
        count: Option<u32>,
        refused: &str,
    ) -> Answer {
        let lock = self.lock(lock)?;
        let leases = match lock.acquire(&self.owner(owner).0, timeout, count).await {
            Ok(leases) => leases,
            Err(error) if error.kind() == ErrorKind::LockTimeout => {
                return Ok(json!({"event": refused, "message": error.to_string()}));
            }
            Err(error) => return Err(error.into()),
        };
        let t = now();
        let mut line = json!({"event": "acquired", "t": t});
        let leases: Vec<_> = leases.into_iter().map(Rc::new).collect();
        if let Some(first) = leases.first() {
            tell(&mut line, first);
        }
        self.leases.borrow_mut().insert(name.to_owned(), leases.clone());
        if count.is_none() && !lock.is_several() {
            tell_loss(name.to_owned(), &leases);
            return Ok(line);
        }
        // Give each lease a numbered name as well. The name in the command stands for all leases.
        let mut told = Vec::new();
        for (number, lease) in leases.into_iter().enumerate() {
            let name = format!("{name}/{number}");
            let mut one = json!({"lease": name});
            tell(&mut one, &lease);
            told.push(one);
            let lease = vec![lease];
            tell_loss(name.clone(), &lease);
            self.leases.borrow_mut().insert(name, lease);
        }
        line["leases"] = told.into();
        Ok(line)
    }

    async fn contend(self: &Rc<Self>, id: &Value, contend: Contend) -> Answer {
        let source = self.source(contend.client.as_deref(), contend.hosts.as_deref(), Options::default())?;
        let make = || {
            Lockable::new(
                source.clone(),
                &contend.path,
                contend.kind,
                permits(contend.permits, None),
                Manner { cohort: contend.cohort, ..Manner::default() },
            )
            .map(Rc::new)
        };
        let shared = make()?;
        let mut contenders = Vec::new();
        for number in 0..contend.owners {
            let lock = if contend.objects == Objects::Shared { Rc::clone(&shared) } else { make()? };
            contenders.push(spawn_local(hold_often(
                id.clone(),
                lock,
                number,
                contend.rounds,
                contend.hold_ms,
            )));
        }
        let mut count = 0;
        for contender in contenders {
            count += contender.await.map_err(|error| Failure::Suite(error.to_string()))??;
        }
        Ok(json!({"event": "done", "count": count}))
    }

    pub(crate) async fn close(&self) {
        let clients = std::mem::take(&mut *self.clients.borrow_mut());
        for client in clients.into_values() {
            client.close().await.ok();
        }
        zklock::shutdown(Duration::from_secs(2));
    }

    fn client(&self, name: &str) -> Result<Client, Failure> {
        self.clients.borrow().get(name).cloned().ok_or_else(|| unknown("client", name))
    }

    fn lock(&self, name: &str) -> Result<Rc<Lockable>, Failure> {
        self.locks.borrow().get(name).cloned().ok_or_else(|| unknown("lock", name))
    }

    fn election(&self, name: &str) -> Result<Election, Failure> {
        self.lock(name)?.election().cloned().ok_or_else(|| unknown("election", name))
    }

    /// Combines several locks into a multi lock.
    fn several(&self, names: &[String]) -> Result<Lockable, Failure> {
        let mut members = Vec::new();
        for name in names {
            members.extend(self.lock(name)?.one().cloned());
        }
        Ok(Lockable::Several(MultiLock::new(members)?))
    }

    fn leases(&self, name: &str) -> Result<Vec<Rc<Lease>>, Failure> {
        self.leases.borrow().get(name).cloned().ok_or_else(|| unknown("lease", name))
    }

    fn first_lease(&self, name: &str) -> Result<Rc<Lease>, Failure> {
        self.leases(name)?.into_iter().next().ok_or_else(|| unknown("lease", name))
    }
}
