//! Properties of the queue under random orders of events with many kinds of faults.
//!
//! After the random steps, the faults end and each contender can acquire and release the lock. Then
//! no contender may still wait, and no node may be left. `PROPTEST_CASES` sets the number of cases.

mod model;

use proptest::prelude::*;
use proptest::strategy::{BoxedStrategy, Union};
use zklock::queue::{Kind, Naming};

use self::model::server::Permission;
use self::model::step::Step;
use self::model::world::World;

/// Relative frequency of each kind of step.
#[derive(Clone, Copy)]
struct Weights {
    asks: u32,
    moves: u32,
    faults: u32,
    losses: u32,
    others: u32,
    operators: u32,
    refusals: u32,
}

/// The lock kinds that our contenders request.
#[derive(Clone, Copy)]
enum RequestedKinds {
    Mutex,
    ReadWrite,
    Permits(u32),
}

const CALM: Weights =
    Weights { asks: 8, moves: 18, faults: 0, losses: 0, others: 4, operators: 0, refusals: 0 };

/// The parameters of a random test: the world, the length of its history, and the frequency of its
/// faults.
#[derive(Clone, Copy)]
struct Scene {
    clients: usize,
    foreign: usize,
    steps: usize,
    requested_kinds: RequestedKinds,
    weights: Weights,
}

fn kind(requested_kinds: RequestedKinds) -> BoxedStrategy<Kind> {
    match requested_kinds {
        RequestedKinds::Mutex => Just(Kind::Exclusive).boxed(),
        RequestedKinds::ReadWrite => prop_oneof![3 => Just(Kind::Read), 2 => Just(Kind::Write)].boxed(),
        RequestedKinds::Permits(permits) => Just(Kind::Permit(permits)).boxed(),
    }
}

fn naming() -> impl Strategy<Value = Naming> {
    prop_oneof![3 => Just(Naming::Curator), 1 => Just(Naming::Kazoo)]
}

fn steps(scene: Scene) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(scraps(scene), 0..scene.steps).prop_map(|scraps| scraps.concat())
}

/// Generates one step, or a few steps that together lead to a rare state.
fn scraps(scene: Scene) -> impl Strategy<Value = Vec<Step>> {
    let Scene { clients, foreign, .. } = scene;
    let queue_up = (0..clients, kind(scene.requested_kinds)).prop_map(|(c, kind)| {
        let join = Step::Join(c, Naming::Curator, kind);
        vec![join, Step::Pump(c), Step::Pump(c), Step::Pump(c)]
    });
    let all = Just((0..clients).flat_map(|c| [Step::Pump(c), Step::Pump(c)]).collect::<Vec<_>>());
    let kind = prop_oneof![Just(Kind::Exclusive), Just(Kind::Write)];
    let enter = (0..foreign.max(1), kind).prop_map(|(f, k)| vec![Step::Enter(f, k), Step::Look(f)]);
    let downgrade = (0..foreign.max(1)).prop_map(|f| vec![Step::Downgrade(f), Step::Downgrade(f)]);
    let others = u32::from(foreign > 0) * scene.weights.others;
    prop_oneof![
        60 => step(scene).prop_map(|step| vec![step]),
        5 => queue_up,
        3 => all,
        others => enter,
        others => downgrade,
    ]
}

fn step(scene: Scene) -> impl Strategy<Value = Step> {
    let Scene { clients, foreign, weights, .. } = scene;
    let choices = [
        (weights.asks, asks(clients, scene.requested_kinds)),
        (weights.moves, moves(clients)),
        (weights.faults, faults(clients)),
        (weights.losses, losses(clients)),
        (if foreign == 0 { 0 } else { weights.others }, others(foreign.max(1))),
        (weights.operators, operators()),
        (weights.refusals, refusals()),
    ];
    Union::new_weighted(choices.into_iter().filter(|(weight, _)| *weight > 0).collect())
}

fn asks(clients: usize, requested_kinds: RequestedKinds) -> BoxedStrategy<Step> {
    let halves = 2 * u32::from(matches!(requested_kinds, RequestedKinds::ReadWrite));
    let which = 0..6usize;
    prop_oneof![
        32 => (0..clients, naming(), kind(requested_kinds)).prop_map(|(c, n, k)| Step::Join(c, n, k)),
        8 => (0..clients, naming(), kind(requested_kinds)).prop_map(|(c, n, k)| Step::Try(c, n, k)),
        5 * halves => (0..clients, naming()).prop_map(|(c, n)| Step::JoinBoth(c, n)),
        10 * halves => (0..clients, naming(), which.clone()).prop_map(|(c, n, w)| Step::RequestReadLock(c, n, w)),
        3 * halves => (0..clients, naming(), which.clone()).prop_map(|(c, n, w)| Step::TryReadLock(c, n, w)),
        15 => (0..clients, which.clone()).prop_map(|(c, w)| Step::Leave(c, w)),
        30 => (0..clients, which.clone()).prop_map(|(c, w)| Step::Release(c, w)),
        5 => (0..clients, which).prop_map(|(c, w)| Step::WatchHold(c, w)),
        5 => (0..clients).prop_map(Step::LookAgain),
        5 => (0..clients).prop_map(Step::Beat),
    ]
    .boxed()
}

fn moves(clients: usize) -> BoxedStrategy<Step> {
    let some = prop_oneof![3 => 1..4usize, 1 => Just(usize::MAX)];
    prop_oneof![
        3 => (0..clients, some.clone()).prop_map(|(c, n)| Step::Flush(c, n)),
        5 => (0..clients).prop_map(Step::Serve),
        2 => (0..clients).prop_map(Step::Advance),
        5 => (0..clients).prop_map(Step::Receive),
        1 => (0..clients).prop_map(Step::ReceiveAll),
        5 => (0..clients, some).prop_map(|(c, n)| Step::Drive(c, n)),
        6 => (0..clients).prop_map(Step::Pump),
    ]
    .boxed()
}

fn faults(clients: usize) -> BoxedStrategy<Step> {
    prop_oneof![
        6 => (0..clients).prop_map(Step::Cut),
        2 => (0..clients).prop_map(Step::PutOff),
        3 => (0..clients).prop_map(Step::ServeGhost),
        2 => (0..clients).prop_map(Step::TakeBack),
        9 => (0..clients, 0..6i64).prop_map(|(c, lag)| Step::Reconnect(c, lag)),
    ]
    .boxed()
}

fn losses(clients: usize) -> BoxedStrategy<Step> {
    prop_oneof![
        2 => (0..clients).prop_map(Step::EndTerm),
        1 => (0..clients).prop_map(Step::Expire),
        1 => (0..clients).prop_map(Step::GiveUp),
        1 => (0..clients).prop_map(Step::Replace),
        1 => (0..clients).prop_map(Step::ExpireOldSessions),
        4 => (0..clients).prop_map(Step::Establish),
    ]
    .boxed()
}

fn others(foreign: usize) -> BoxedStrategy<Step> {
    let kind = prop_oneof![2 => Just(Kind::Exclusive), 2 => Just(Kind::Write), 1 => Just(Kind::Read)];
    prop_oneof![
        3 => (0..foreign, kind).prop_map(|(f, k)| Step::Enter(f, k)),
        4 => (0..foreign).prop_map(Step::Look),
        3 => (0..foreign).prop_map(Step::Exit),
        3 => (0..foreign).prop_map(Step::Downgrade),
        1 => (0..foreign).prop_map(Step::Crash),
    ]
    .boxed()
}

fn operators() -> BoxedStrategy<Step> {
    let which = 0..6usize;
    prop_oneof![
        2 => which.clone().prop_map(Step::Delete),
        2 => which.prop_map(Step::Change),
        2 => Just(Step::Reap),
    ]
    .boxed()
}

fn refusals() -> BoxedStrategy<Step> {
    prop_oneof![
        1 => Just(Step::Forbid(Some(Permission::Create))),
        1 => Just(Step::Forbid(Some(Permission::List))),
        1 => Just(Step::Forbid(Some(Permission::Read))),
        3 => Just(Step::Forbid(None)),
    ]
    .boxed()
}

fn run(mut world: World, steps: &[Step]) -> Result<(), TestCaseError> {
    for step in steps {
        world.step(*step).map_err(|problem| TestCaseError::fail(format!("{step:?}: {problem}")))?;
    }
    world.finish().map_err(TestCaseError::fail)
}

/// Like [`run`], for servers that deny permissions. Lists each directory again at the end, because
/// after a denied listing a client does not know the result of its create.
fn run_refusing(world: World, steps: &[Step]) -> Result<(), TestCaseError> {
    let clients = world.clients.len();
    let end =
        (0..clients).flat_map(|client| [Step::Forbid(None), Step::Pump(client), Step::LookAgain(client)]);
    let steps: Vec<_> = steps.iter().copied().chain(end).collect();
    run(world, &steps)
}

fn world(scene: Scene, directory: bool) -> World {
    let mut world = World::new(scene.clients as u64, scene.foreign as u64, directory);
    // In every second client, all contenders count as far from the front, so these clients defer
    // their listings after a reconnection.
    for client in world.clients.iter_mut().step_by(2) {
        client.far_beyond = 0;
    }
    world
}

fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    ProptestConfig { cases, max_shrink_iters: 20_000, failure_persistence: None, ..default }
}

const EVERYTHING: Scene = Scene {
    clients: 3,
    foreign: 2,
    steps: 160,
    requested_kinds: RequestedKinds::Mutex,
    weights: Weights { asks: 6, moves: 18, faults: 4, losses: 1, others: 4, operators: 1, refusals: 0 },
};

/// A scene with a single client.
const ALONE: Scene = Scene {
    clients: 1,
    foreign: 0,
    steps: 60,
    requested_kinds: RequestedKinds::Mutex,
    weights: Weights { asks: 6, moves: 14, faults: 5, losses: 1, others: 0, operators: 2, refusals: 0 },
};

/// A scene with lost replies and lagging servers. No session is lost, so every contender must keep
/// its position.
const ROUGH: Scene = Scene {
    clients: 2,
    foreign: 2,
    steps: 100,
    requested_kinds: RequestedKinds::Mutex,
    weights: Weights { asks: 6, moves: 16, faults: 6, losses: 0, others: 6, operators: 0, refusals: 0 },
};

/// Random tests with servers that deny permissions.
const REFUSING: Scene = Scene {
    clients: 2,
    foreign: 1,
    steps: 80,
    requested_kinds: RequestedKinds::Mutex,
    weights: Weights { asks: 6, moves: 14, faults: 4, losses: 1, others: 3, operators: 1, refusals: 2 },
};

/// Random tests with many contenders and no faults.
const BUSY: Scene =
    Scene { clients: 3, foreign: 2, steps: 160, requested_kinds: RequestedKinds::Mutex, weights: CALM };

/// Random tests with readers, writers and downgrades, of our clients and of other libraries.
const READ_WRITE: Scene = Scene { requested_kinds: RequestedKinds::ReadWrite, ..EVERYTHING };

/// Random tests with permits, which only our clients request.
const PERMITS: Scene = Scene { foreign: 0, requested_kinds: RequestedKinds::Permits(2), ..EVERYTHING };

proptest! {
    #![proptest_config(config(800))]

    #[test]
    fn whatever_happens(steps in steps(EVERYTHING), directory: bool) {
        run(world(EVERYTHING, directory), &steps)?;
    }

    #[test]
    fn readers_and_writers(steps in steps(READ_WRITE), directory: bool) {
        run(world(READ_WRITE, directory), &steps)?;
    }

    #[test]
    fn permits(steps in steps(PERMITS), directory: bool) {
        run(world(PERMITS, directory), &steps)?;
    }

    #[test]
    fn one_client_with_lost_replies(steps in steps(ALONE), directory: bool) {
        run(world(ALONE, directory), &steps)?;
    }

    #[test]
    fn rough_connections(steps in steps(ROUGH), directory: bool) {
        run(world(ROUGH, directory), &steps)?;
    }

    #[test]
    fn servers_that_refuse(steps in steps(REFUSING), directory: bool) {
        run_refusing(world(REFUSING, directory), &steps)?;
    }

    #[test]
    fn sequence_numbers_that_end(steps in steps(REFUSING), room in 0..8u32) {
        let mut world = world(REFUSING, true);
        world.server.directories[0].next_sequence = (1 << 31) - (1 << 16) - room;
        run_refusing(world, &steps)?;
    }

    #[test]
    fn many_contenders(steps in steps(BUSY), directory: bool) {
        run(world(BUSY, directory), &steps)?;
    }
}

/// The client's term ends after the application has requested a downgrade, but before the driver
/// has processed the request.
#[test]
fn a_reader_comes_too_late_for_its_writers_place() {
    let ask = |kind| Step::Join(0, Naming::Curator, kind);
    let read_too = Step::RequestReadLock(0, Naming::Curator, 0);
    let holds = [ask(Kind::Write), Step::Pump(0), Step::Pump(0), Step::Pump(0)];
    for requested_kinds in [vec![ask(Kind::Read), read_too], vec![read_too, ask(Kind::Read), read_too]] {
        let late = [Step::EndTerm(0), Step::Drive(0, 1)];
        let steps = [holds.as_slice(), &requested_kinds, &late].concat();
        run(world(READ_WRITE, true), &steps).expect("the reader stands where it queued, or in the place");
    }
}

/// Deletes a directory and creates it again, so that its sequence numbers start at zero again. A
/// new node then has a lower number than an old one, but was never ahead of it.
#[test]
fn sequence_numbers_restart_with_the_directory() {
    let ask = Step::Join(0, Naming::Curator, Kind::Exclusive);
    let queued = [ask, Step::Pump(0), Step::Pump(0), ask, Step::Pump(0), Step::Pump(0)];
    let anew =
        [Step::Delete(0), Step::Delete(0), Step::Reap, Step::Release(0, 0), Step::Enter(0, Kind::Exclusive)];
    run(world(EVERYTHING, true), &[queued.as_slice(), &anew].concat()).expect("the hand-off asks no server");
}

/// Regression: a waiting reader that takes over its writer's position must count as near the front.
/// Otherwise the client sends no heartbeat for it, and the reader waits forever.
#[test]
fn a_reader_in_the_place_of_its_writer_is_near() {
    let pumps = |count| vec![Step::Pump(2); count];
    let ask = |kind| vec![Step::Join(2, Naming::Curator, kind)];
    let late =
        [Step::EndTerm(2), Step::RequestReadLock(2, Naming::Curator, 0), Step::Drive(2, 1), Step::Cut(2)];
    let steps = [ask(Kind::Write), pumps(3), ask(Kind::Read), pumps(3), late.to_vec()].concat();
    run(world(READ_WRITE, false), &[pumps(2), steps].concat()).expect("no contender is left");
}

/// Regression: a waiter far from the head learned that the nodes that it watched were deleted, and
/// lost its connection before it watched the next ones. The client postponed its listing, and no
/// event reported that all contenders ahead were gone.
#[test]
fn a_waiter_whose_watches_have_fired_does_not_defer_its_listing() {
    let join = |client| Step::Join(client, Naming::Curator, Kind::Exclusive);
    let joined = |client| [join(client), Step::Pump(client), Step::Pump(client), Step::Pump(client)];
    let mut steps = vec![join(0)];
    steps.extend((0..4).flat_map(|_| joined(0)).chain(joined(1)));
    steps.extend([Step::Expire(0), Step::LookAgain(1)]);
    run_refusing(world(REFUSING, false), &steps).expect("no contender is left");
}

/// Regression: after a lost reply to a create, the server refused the listing that should have
/// shown the node. The acquire failed, the client did not list the directory again, and the node
/// stayed in the queue.
#[test]
fn a_refused_listing_leaves_the_outcome_of_a_create_in_doubt() {
    let join = Step::Join(0, Naming::Curator, Kind::Exclusive);
    let lost = [join, Step::Drive(0, 1), Step::Flush(0, 1), Step::Cut(0), Step::ServeGhost(0)];
    let denied = [Step::Forbid(Some(Permission::List)), Step::Reconnect(0, 0), Step::Pump(0), Step::Pump(0)];
    let again = [Step::Forbid(None), Step::LookAgain(0)];
    // Only a listing can show the node. The client therefore repeats a refused listing, even after
    // the time in which the server can still execute the create.
    let later =
        [Step::LookAgain(0), Step::Pump(0), Step::Pump(0), Step::Certain(0), Step::Pump(0), Step::Pump(0)];
    for between in [[].as_slice(), &later] {
        let steps = [&lost, denied.as_slice(), between, &again].concat();
        run(world(REFUSING, true), &steps).expect("the node is deleted");
    }
}
