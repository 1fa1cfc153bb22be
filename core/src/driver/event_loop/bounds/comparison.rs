//! Test helper that compares the cost of an operation when there are 100 objects with its cost when
//! there are 10,000.

#[path = "../../../../tests/instructions/mod.rs"]
mod instructions;

use tracing::Dispatch;

use self::instructions::instructions;

const FEW: u64 = 100;
const MANY: u64 = 10_000;

/// Costs below this number of instructions are not compared: even a doubling would not matter.
const NEXT_TO_NOTHING: u64 = 5_000;

/// The number of instructions for each part of some work.
#[derive(Default)]
pub(crate) struct Costs {
    count: bool,
    found: Vec<(&'static str, u64)>,
}

impl Costs {
    /// Runs `work` in a forked copy of this process and counts its instructions. In this process,
    /// `work` has no effect.
    pub(crate) fn note<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) {
        if self.count {
            self.found.push((name, instructions(work)));
        }
    }
}

/// Fails if an operation takes more than twice as many instructions with many objects as with few.
/// `live` creates the given number of objects and records the costs. The limit permits a search in
/// a tree: the tree's height only doubles, from two to four.
#[allow(clippy::print_stdout, reason = "tells the figures")]
pub(crate) fn compare(what: &str, live: impl Fn(u64, &mut Costs)) {
    // Without this, another test's subscriber could receive events of this test. A forked copy
    // could inherit that subscriber's locks while they are locked.
    let _quiet = tracing::dispatcher::set_default(&Dispatch::none());
    // Do the work that each process does only once, without counting it.
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
