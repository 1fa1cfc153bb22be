//! For tests: what something takes beside 10,000 of its kind, against what it takes beside 100.

#[path = "../../../../tests/instructions/mod.rs"]
mod instructions;

use tracing::Dispatch;

use self::instructions::instructions;

const FEW: u64 = 100;
const MANY: u64 = 10_000;

/// What takes next to nothing may take next to nothing twice.
const NEXT_TO_NOTHING: u64 = 5_000;

/// What each part of some work takes.
#[derive(Default)]
pub(crate) struct Costs {
    count: bool,
    found: Vec<(&'static str, u64)>,
}

impl Costs {
    /// Notes how many instructions this takes, in a copy of this process: here it is not carried out.
    pub(crate) fn note<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) {
        if self.count {
            self.found.push((name, instructions(work)));
        }
    }
}

/// Fails if anything takes more than twice the instructions beside many: what is not looked at one by one is found in a
/// tree, whose height grows from two to four. `live` notes what things take beside so many.
#[allow(clippy::print_stdout, reason = "tells the figures")]
pub(crate) fn compare(what: &str, live: impl Fn(u64, &mut Costs)) {
    // Another test's listener must not hear of this, nor its locks be held in a copy of this process.
    let _quiet = tracing::dispatcher::set_default(&Dispatch::none());
    // What happens only once in a process is not at anything's expense.
    live(1, &mut Costs::default());
    let [few, many] = [FEW, MANY].map(|count| {
        let mut costs = Costs { count: true, found: Vec::new() };
        live(count, &mut costs);
        costs.found
    });
    assert!(!few.is_empty() && few.len() == many.len(), "{what}: something was noted");
    for ((name, beside_few), (_, beside_many)) in few.into_iter().zip(many) {
        println!("{what}: {name}: {beside_few} beside {FEW}, {beside_many} beside {MANY}");
        assert!(
            beside_many <= 2 * beside_few.max(NEXT_TO_NOTHING),
            "{what}: {name} takes {beside_few} beside {FEW}, and {beside_many} beside {MANY}"
        );
    }
}
