//! Properties of the queue under random orders of events, with everything that can go wrong going wrong.

mod model;

use proptest::prelude::*;
use zklock::queue::{Intent, Kind, Naming};

use self::model::{Step, World};

const CLIENTS: usize = 3;
const FOREIGN: usize = 2;

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    let foreign = 0..FOREIGN;
    let which = 0..6usize;
    let naming = prop_oneof![3 => Just(Naming::Curator), 1 => Just(Naming::Kazoo)];
    let intent = prop_oneof![4 => Just(Intent::Wait), 1 => Just(Intent::Try)];
    let kind = prop_oneof![2 => Just(Kind::Exclusive), 2 => Just(Kind::Write), 1 => Just(Kind::Read)];
    let some = prop_oneof![3 => 1..4usize, 1 => Just(usize::MAX)];
    let asks = prop_oneof![
        8 => (client.clone(), naming, intent).prop_map(|(c, n, i)| Step::Join(c, n, i)),
        3 => (client.clone(), which.clone()).prop_map(|(c, w)| Step::Leave(c, w)),
        6 => (client.clone(), which.clone()).prop_map(|(c, w)| Step::Release(c, w)),
        1 => (client.clone(), which.clone()).prop_map(|(c, w)| Step::Guard(c, w)),
        1 => client.clone().prop_map(Step::LookAgain),
    ];
    let moves = prop_oneof![
        3 => (client.clone(), some.clone()).prop_map(|(c, n)| Step::Flush(c, n)),
        5 => client.clone().prop_map(Step::Serve),
        2 => client.clone().prop_map(Step::Advance),
        5 => client.clone().prop_map(Step::Receive),
        5 => (client.clone(), some).prop_map(|(c, n)| Step::Drive(c, n)),
        6 => client.clone().prop_map(Step::Pump),
    ];
    let faults = prop_oneof![
        6 => client.clone().prop_map(Step::Cut),
        3 => client.clone().prop_map(Step::ServeGhost),
        9 => (client.clone(), 0..6i64).prop_map(|(c, lag)| Step::Reconnect(c, lag)),
        1 => client.clone().prop_map(Step::Expire),
        1 => client.clone().prop_map(Step::GiveUp),
        3 => client.prop_map(Step::Establish),
    ];
    let others = prop_oneof![
        3 => (foreign.clone(), kind).prop_map(|(f, k)| Step::Enter(f, k)),
        4 => foreign.clone().prop_map(Step::Look),
        3 => foreign.clone().prop_map(Step::Exit),
        3 => foreign.clone().prop_map(Step::Downgrade),
        1 => foreign.prop_map(Step::Crash),
    ];
    let operators = prop_oneof![
        2 => which.clone().prop_map(Step::Delete),
        2 => which.prop_map(Step::Change),
        2 => Just(Step::Reap),
    ];
    prop_oneof![6 => asks, 18 => moves, 5 => faults, 4 => others, 1 => operators]
}

fn run(mut world: World, steps: &[Step]) -> Result<(), TestCaseError> {
    for step in steps {
        world.step(*step).map_err(|problem| TestCaseError::fail(format!("{step:?}: {problem}")))?;
    }
    world.finish().map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_goes_wrong_whatever_happens(steps in prop::collection::vec(step(), 0..160), directory: bool) {
        run(World::new(CLIENTS as u64, FOREIGN as u64, directory), &steps)?;
    }
}
