//! What happens in one simulation, all of it drawn from its seed: servers, clients, contenders, faults.

use std::fmt;

use crate::chance::Chance;
use crate::fault::{Fault, What};
use crate::outage::Outage;
use crate::progress::Progress;
use crate::setting::Setting;

/// What one simulation consists of.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub setting: Setting,
    /// The numbers of the contenders that take part.
    pub contenders: Vec<usize>,
    /// The one of them that is a visitor, or a guest.
    pub visitor: Option<usize>,
    /// The faults, by their numbers.
    pub faults: Vec<(usize, Fault)>,
    /// Whether contenders combine features on purpose.
    pub together: bool,
    /// Whether contenders run bodies once per slot.
    pub once: bool,
    /// The script in place of contenders and faults.
    pub script: Option<Script>,
    /// A line of the history with this counts as a violation.
    pub sought: Option<String>,
    /// How many faults and contenders the seed has, taking part or not.
    all: (usize, usize),
}

/// A course of events of its own.
#[derive(Clone, Copy, Debug)]
pub enum Script {
    /// An outage through which the only contender holds or waits.
    Outage(Outage),
    /// Something that has to happen soon.
    Progress(Progress),
}

impl Plan {
    /// The plan of a seed.
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

    /// The same, with contenders that combine features on purpose, and fewer faults.
    pub fn together(mut self) -> Self {
        self.together = true;
        // A replica knows the credentials of its own connections only.
        self.setting.private = (self.setting.servers == 1).then_some(self.setting.clients - 1);
        // Directories that one client makes are its own: they are there, and stay.
        self.setting.reaps = None;
        self.faults.retain(|(_, fault)| !matches!(fault.what, What::Reap { .. }));
        self.faults.truncate(usize::try_from(self.seed % 4).unwrap_or(0));
        self.all.0 = self.faults.len();
        self
    }

    /// The same, with contenders that run bodies once per slot, and with faults of their records.
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

    /// The plan of an outage.
    pub fn of_outage(seed: u64) -> Self {
        let (setting, outage) = Outage::of(seed);
        Self::scripted(seed, setting, Script::Outage(outage))
    }

    /// The plan of a case of progress.
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

    /// The kind of its seed, and the option for runs of that kind.
    pub fn family(&self) -> (&'static str, &'static str) {
        match self.script {
            Some(Script::Outage(_)) => ("outage", "--outages "),
            Some(Script::Progress(_)) => ("progress", "--progress "),
            None if self.once => ("once", "--once "),
            None if self.together => ("together", "--together "),
            None => ("seed", ""),
        }
    }

    /// The same, to look for something in its history.
    pub fn seeking(self, sought: Option<String>) -> Self {
        Self { sought, ..self }
    }

    /// Whether a directory may go while nobody is in it, so that the numbers of nodes begin anew.
    pub fn restarts_numbers(&self) -> bool {
        let reaps = |fault: &Fault| matches!(fault.what, What::Reap { .. });
        self.setting.reaps.is_some() || self.faults.iter().any(|(_, fault)| reaps(fault))
    }

    /// The same without these faults and contenders.
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

/// As the arguments that replay it.
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
