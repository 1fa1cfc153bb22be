//! The plan of one simulation, drawn from its seed: servers, clients, contenders and faults.

use std::fmt;

use crate::chance::Chance;
use crate::fault::{Fault, FaultKind};
use crate::outage::Outage;
use crate::progress::Progress;
use crate::setting::Setting;

/// The plan of one simulation.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub setting: Setting,
    /// Numbers of the contenders that take part.
    pub contenders: Vec<usize>,
    /// The contender that is a visitor or a guest.
    pub visitor: Option<usize>,
    /// The faults, with their numbers.
    pub faults: Vec<(usize, Fault)>,
    /// True if contenders combine features on purpose.
    pub together: bool,
    /// True if contenders run bodies once per slot.
    pub once: bool,
    /// The script that replaces contenders and faults.
    pub script: Option<Script>,
    /// A text to search for. Each line of the history that contains it counts as a violation.
    pub sought: Option<String>,
    /// Numbers of faults and contenders in the complete plan. A shrunk plan has fewer.
    all: (usize, usize),
}

/// A fixed course of events.
#[derive(Clone, Copy, Debug)]
pub enum Script {
    /// An outage while the only contender holds the lock or waits for it.
    Outage(Outage),
    /// A measured case of progress.
    Progress(Progress),
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn of(seed: u64) -> Self {
        let setting = Setting::of(seed);
        let mut chance = Chance::of(seed, "plan", 0);
        let contenders = chance.index(7) + 3;
        let faults = if chance.percent(10) { 0 } else { chance.index(12) + 1 };
        let visitor = setting.visited || setting.hosts;
        let own = (0..faults).map(|number| Fault::of(seed, number, &setting));
        let faults: Vec<_> = own.chain(Fault::rare(seed, &setting)).enumerate().collect();
        Self {
            seed,
            setting,
            contenders: (0..contenders + usize::from(visitor)).collect(),
            visitor: visitor.then_some(contenders),
            together: false,
            once: false,
            script: None,
            sought: None,
            all: (faults.len(), contenders + usize::from(visitor)),
            faults,
        }
    }

    /// Makes contenders combine features (see `features`), and reduces the number of faults.
    pub fn together(mut self) -> Self {
        self.together = true;
        // With several servers, no client can have private nodes (readable only with a password):
        // in the model, a server knows only the passwords of the clients that are connected to it.
        self.setting.private = (self.setting.servers == 1).then_some(self.setting.clients - 1);
        // The directories exist from the start and are not removed. Otherwise the client with
        // private nodes could create one, and no other client could use that directory.
        self.setting.reaps = None;
        self.faults.retain(|(_, fault)| !matches!(fault.what, FaultKind::Reap { .. }));
        self.faults.truncate(usize::try_from(self.seed % 4).unwrap_or(0));
        self.all.0 = self.faults.len();
        self
    }

    /// Makes contenders run code once per time slot, and adds faults that affect slot records.
    pub fn once(mut self) -> Self {
        self.once = true;
        self.contenders.retain(|number| self.visitor != Some(*number));
        self.visitor = None;
        (self.setting.visited, self.setting.hosts) = (false, false);
        let faults = self.faults.into_iter().map(|(_, fault)| fault.on_slots());
        self.faults = faults.chain(Fault::of_records(self.seed, &self.setting)).enumerate().collect();
        self.all = (self.faults.len(), self.contenders.len());
        self
    }

    /// Draws the plan of an outage.
    pub fn of_outage(seed: u64) -> Self {
        let (setting, outage) = Outage::of(seed);
        Self::scripted(seed, setting, Script::Outage(outage))
    }

    /// Draws the plan of a progress case.
    pub fn of_progress(seed: u64) -> Self {
        let (setting, progress) = Progress::of(seed);
        Self::scripted(seed, setting, Script::Progress(progress))
    }

    fn scripted(seed: u64, setting: Setting, script: Script) -> Self {
        Self {
            seed,
            setting,
            contenders: vec![0],
            visitor: None,
            faults: Vec::new(),
            together: false,
            once: false,
            script: Some(script),
            sought: None,
            all: (0, 1),
        }
    }

    /// Returns the plan's kind, and the command line option that selects this kind.
    pub fn family(&self) -> (&'static str, &'static str) {
        match self.script {
            Some(Script::Outage(_)) => ("outage", "--outages "),
            Some(Script::Progress(_)) => ("progress", "--progress "),
            None if self.once => ("once", "--once "),
            None if self.together => ("together", "--together "),
            None => ("seed", ""),
        }
    }

    /// Sets the text to search for in the history.
    pub fn seeking(self, sought: Option<String>) -> Self {
        Self { sought, ..self }
    }

    /// Returns `true` if empty directories can be removed during the run, so that sequence numbers
    /// restart.
    pub fn restarts_numbers(&self) -> bool {
        let reaps = |fault: &Fault| matches!(fault.what, FaultKind::Reap { .. });
        self.setting.reaps.is_some() || self.faults.iter().any(|(_, fault)| reaps(fault))
    }

    /// Leaves out these faults and contenders.
    pub fn without(mut self, faults: &[usize], contenders: &[usize]) -> Self {
        self.faults.retain(|(number, _)| !faults.contains(number));
        self.contenders.retain(|number| !contenders.contains(number));
        self
    }
}

fn missing(count: usize, present: impl Iterator<Item = usize>) -> String {
    let present: Vec<_> = present.collect();
    let missing = (0..count).filter(|number| !present.contains(number)).map(|number| number.to_string());
    missing.collect::<Vec<_>>().join(",")
}

/// Formats the plan as the arguments that replay it.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}--seed {}", self.family().1, self.seed)?;
        let faults = missing(self.all.0, self.faults.iter().map(|(number, _)| *number));
        let contenders = missing(self.all.1, self.contenders.iter().copied());
        if !faults.is_empty() {
            write!(f, " --without-faults {faults}")?;
        }
        if !contenders.is_empty() {
            write!(f, " --without-contenders {contenders}")?;
        }
        if let Some(sought) = &self.sought {
            write!(f, " --find \"{sought}\"")?;
        }
        Ok(())
    }
}
