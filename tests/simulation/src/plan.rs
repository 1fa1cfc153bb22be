//! What happens in one simulation, all of it drawn from its seed: servers, clients, contenders, faults.

use std::fmt;

use crate::chance::Chance;
use crate::fault::Fault;
use crate::outage::Outage;
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
    /// The outage through which the only contender holds or waits, in place of faults.
    pub outage: Option<Outage>,
    /// A line of the history with this counts as a violation.
    pub sought: Option<String>,
    /// How many faults and contenders the seed has, taking part or not.
    all: (usize, usize),
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
            outage: None,
            sought: None,
            all: (faults.len(), contenders + usize::from(visitor)),
            faults,
        }
    }

    /// The plan of an outage.
    pub fn of_outage(seed: u64) -> Self {
        let (setting, outage) = Outage::of(seed);
        let (contenders, outage) = (vec![0], Some(outage));
        Self {
            seed,
            setting,
            contenders,
            visitor: None,
            faults: Vec::new(),
            outage,
            sought: None,
            all: (0, 1),
        }
    }

    /// The same, to look for something in its history.
    pub fn seeking(self, sought: Option<String>) -> Self {
        Self { sought, ..self }
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
        if self.outage.is_some() {
            write!(f, "--outages ")?;
        }
        write!(f, "--seed {}", self.seed)?;
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
