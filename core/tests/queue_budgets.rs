//! Limits on the number of requests that a queue sends. A change that needs more requests fails
//! here.

mod model;

use proptest::prelude::*;
use zklock::queue::{JoinId, Kind, Naming};

use self::model::client::{Notification, Requests};
use self::model::step::Step;
use self::model::world::World;

fn join(client: usize) -> Step {
    Step::Join(client, Naming::Curator, Kind::Exclusive)
}

fn attempt(client: usize) -> Step {
    Step::Try(client, Naming::Curator, Kind::Exclusive)
}

/// Returns the steps of one round trip: the client sends, the server replies, and the client
/// receives the replies.
fn round_trip(client: usize) -> [Step; 2] {
    [Step::Drive(client, usize::MAX), Step::Pump(client)]
}

fn play(world: &mut World, steps: impl IntoIterator<Item = Step>) -> Vec<(usize, Notification)> {
    let told =
        steps.into_iter().map(|step| world.step(step).unwrap_or_else(|wrong| panic!("{step:?}: {wrong}")));
    told.collect::<Vec<_>>().concat()
}

fn granted(client: usize, join: u64) -> (usize, Notification) {
    (client, Notification::Granted(JoinId(join)))
}

fn requests(world: &World, client: usize) -> &Requests {
    &world.clients[client].requests
}

#[test]
fn a_free_lock_costs_a_create_and_a_listing_in_one_round_trip_and_a_delete() {
    let mut world = World::new(1, 0, true);
    play(&mut world, [join(0), Step::Drive(0, usize::MAX)]);
    let sent = Requests { creates: 1, lists: 1, ..Requests::default() };
    assert_eq!(*requests(&world, 0), sent);
    assert_eq!(play(&mut world, [Step::Pump(0)]), [granted(0, 1)]);
    assert_eq!(*requests(&world, 0), sent);
    play(&mut world, [Step::Release(0, 0)].into_iter().chain(round_trip(0)));
    assert_eq!(*requests(&world, 0), Requests { deletes: 1, ..sent });
    world.finish().unwrap();
    assert_eq!(requests(&world, 0).all(), 3);
}

#[test]
fn the_first_use_of_a_path_costs_five_requests() {
    let mut world = World::new(1, 0, false);
    play(&mut world, [join(0)]);
    let told = play(&mut world, [round_trip(0), round_trip(0), round_trip(0)].concat());
    assert_eq!(told, [granted(0, 1)]);
    assert_eq!(*requests(&world, 0), Requests { creates: 2, lists: 2, parents: 1, ..Requests::default() });
}

#[test]
fn a_failed_try_costs_one_read() {
    let mut world = World::new(1, 1, true);
    play(&mut world, [Step::Enter(0, Kind::Exclusive), Step::Look(0), attempt(0)]);
    let told = play(&mut world, round_trip(0));
    assert!(matches!(&told[..], [(0, Notification::Refused(..))]), "{told:?}");
    assert_eq!(*requests(&world, 0), Requests { lists: 1, ..Requests::default() });
    world.finish().unwrap();
    assert_eq!(requests(&world, 0).all(), 1);
}

#[test]
fn a_waiter_sets_three_watches_and_its_hand_off_costs_no_request() {
    let mut world = World::new(1, 3, true);
    let queue_up = (0..3).flat_map(|other| [Step::Enter(other, Kind::Exclusive), Step::Look(other)]);
    play(&mut world, queue_up.chain([join(0)]));
    play(&mut world, [round_trip(0), round_trip(0)].concat());
    let waiting = Requests { creates: 1, lists: 1, watches: 3, ..Requests::default() };
    assert_eq!(*requests(&world, 0), waiting);
    // The first contender is not one of the two nearest to our waiter, so our client is not
    // notified of its release.
    play(&mut world, [Step::Exit(0)].into_iter().chain(round_trip(0)));
    assert_eq!(*requests(&world, 0), waiting);
    // Our client watched the second contender. After its release, our client tries to watch the
    // first contender, which costs one request.
    play(&mut world, [Step::Exit(1)].into_iter().chain(round_trip(0)));
    play(&mut world, round_trip(0));
    let looked = Requests { watches: 4, ..waiting };
    assert_eq!(*requests(&world, 0), looked);
    // When the nearest contender releases the lock, the watch event alone is enough to grant the
    // lock.
    let told = play(&mut world, [Step::Exit(2), Step::Advance(0), Step::Receive(0), Step::Drive(0, 1)]);
    assert_eq!(told, [granted(0, 1)]);
    assert_eq!(*requests(&world, 0), looked);
    world.finish().unwrap();
}

#[test]
fn a_release_wakes_at_most_two_waiters() {
    const CLIENTS: usize = 6;
    let mut world = World::new(CLIENTS as u64, 0, true);
    for client in 0..CLIENTS {
        play(&mut world, [join(client)].into_iter().chain(round_trip(client)).chain(round_trip(client)));
    }
    for holder in 0..CLIENTS {
        assert!(world.clients[holder].holds.len() == 1, "{holder} holds");
        play(&mut world, [Step::Release(holder, 0)].into_iter().chain(round_trip(holder)));
        let watches = |world: &World, client: usize| {
            world.clients[client].session.as_ref().map_or(0, |session| session.wanted_watches().len())
        };
        let hears = |client: &usize| {
            let mut probe = world.clone();
            play(&mut probe, [Step::Advance(*client), Step::Receive(*client)]);
            watches(&probe, *client) != watches(&world, *client)
        };
        let woken = (0..CLIENTS).filter(hears).count();
        assert!(woken <= 2, "{woken} woken");
        for client in 0..CLIENTS {
            play(&mut world, round_trip(client));
            play(&mut world, round_trip(client));
        }
    }
    world.finish().unwrap();
}

#[test]
fn local_waiters_behind_somebody_else_share_three_watches() {
    let mut world = World::new(1, 2, true);
    let queue_up = (0..2).flat_map(|other| [Step::Enter(other, Kind::Exclusive), Step::Look(other)]);
    play(&mut world, queue_up.chain(vec![join(0); 5]));
    play(&mut world, [round_trip(0), round_trip(0)].concat());
    assert_eq!(*requests(&world, 0), Requests { creates: 5, lists: 1, watches: 3, ..Requests::default() });
    world.finish().unwrap();
    // Besides the requests above, the limit allows five deletes and one listing.
    assert!(requests(&world, 0).all() <= 16, "{:?}", requests(&world, 0));
}

#[test]
fn a_holder_and_six_local_waiters_are_drained_with_at_most_24_requests() {
    for at_once in [true, false] {
        let mut world = World::new(1, 0, true);
        for _ in 0..7 {
            play(&mut world, [join(0)]);
            if !at_once {
                play(&mut world, round_trip(0));
            }
        }
        world.finish().unwrap();
        let requests = requests(&world, 0);
        assert_eq!((requests.creates, requests.deletes, requests.watches), (7, 7, 0));
        assert!(requests.all() <= 24, "{requests:?}");
    }
}

#[test]
fn each_place_in_a_crowd_costs_six_requests_and_all_of_them_share_a_listing() {
    const OURS: usize = 3;
    const BETWEEN: usize = 6;
    const CROWD: usize = (OURS + 2) * BETWEEN;
    let mut world = World::new(1, CROWD as u64, true);
    for other in 0..CROWD {
        play(&mut world, [Step::Enter(other, Kind::Exclusive)]);
        if other % BETWEEN == BETWEEN - 1 && other / BETWEEN < OURS {
            play(&mut world, [join(0)].into_iter().chain(round_trip(0)).chain(round_trip(0)));
        }
    }
    for _ in 0..3 {
        play(&mut world, round_trip(0));
    }
    for other in 0..CROWD {
        play(&mut world, [Step::Look(other), Step::Exit(other)]);
        for _ in 0..3 {
            play(&mut world, round_trip(0));
        }
        if other % BETWEEN == BETWEEN - 1 && other / BETWEEN < OURS {
            assert_eq!(world.clients[0].holds.len(), 1, "the turn of one of ours after {other}");
            play(&mut world, [Step::Release(0, 0)].into_iter().chain(round_trip(0)));
        }
    }
    let (requests, ours) = (requests(&world, 0), u32::try_from(OURS).unwrap());
    assert_eq!((requests.creates, requests.watches, requests.probes), (ours, 3 * ours, ours), "{requests:?}");
    assert!(requests.lists <= 3, "{requests:?}");
    assert_eq!(requests.all(), 6 * ours + requests.lists + requests.unwatches, "{requests:?}");
    world.finish().unwrap();
}

/// Each client has one waiter, which joins the queue again as soon as its hold ends.
/// docs/decisions/queue-requests.md explains why each of the seven requests is necessary.
#[test]
fn a_hand_off_among_clients_with_a_waiter_each_costs_seven_requests() {
    const CLIENTS: usize = 12;
    const TURNS: usize = 3 * CLIENTS;
    let mut world = World::new(CLIENTS as u64, 0, true);
    let everyone = || (0..CLIENTS).flat_map(round_trip);
    for client in 0..CLIENTS {
        play(&mut world, [join(client)].into_iter().chain(round_trip(client)).chain(round_trip(client)));
    }
    let sent = |world: &World| (0..CLIENTS).map(|client| requests(world, client).all()).sum::<u32>();
    // Do not count the first holds, because the queue is still short then.
    for turn in 0..2 * TURNS {
        let before = sent(&world);
        let holder = turn % CLIENTS;
        assert_eq!(world.clients[holder].holds.len(), 1, "the turn of {holder}");
        play(&mut world, [Step::Release(holder, 0), join(holder)]);
        for _ in 0..3 {
            play(&mut world, everyone());
        }
        if turn >= TURNS {
            assert_eq!(sent(&world) - before, 7, "turn {turn}");
        }
    }
    world.finish().unwrap();
}

/// The waiters join one by one, as in a queue that never becomes empty. Each listing shows all
/// contenders that have joined since the last one.
#[test]
fn local_waiters_that_come_and_go_cost_a_listing_for_many_of_them() {
    const WAITERS: u32 = 20;
    const TURNS: u32 = 5 * WAITERS;
    let mut world = World::new(1, 0, true);
    for _ in 0..WAITERS {
        play(&mut world, [join(0)].into_iter().chain(round_trip(0)));
    }
    let before = requests(&world, 0).clone();
    for _ in 0..TURNS {
        assert_eq!(world.clients[0].holds.len(), 1);
        play(&mut world, [Step::Release(0, 0), join(0)].into_iter().chain(round_trip(0)));
    }
    let after = requests(&world, 0);
    assert_eq!((after.creates - before.creates, after.deletes - before.deletes), (TURNS, TURNS));
    let lists = after.lists - before.lists;
    assert!(lists <= TURNS / WAITERS + 2, "{lists} listings for {TURNS} turns");
    assert_eq!(after.all() - before.all(), 2 * TURNS + lists);
    world.finish().unwrap();
}

#[test]
fn an_adjacent_hand_off_takes_no_round_trip() {
    let mut world = World::new(1, 0, true);
    play(&mut world, [join(0), join(0)].into_iter().chain(round_trip(0)));
    let told = play(&mut world, [Step::Release(0, 0), Step::Drive(0, 1)]);
    assert_eq!(told, [granted(0, 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The first contender's create and listing are in flight while the other contenders join.
    #[test]
    fn joins_at_once_cost_a_create_each_and_at_most_two_listings(
        moves in prop::collection::vec(0..4u8, 0..40),
        count in 2..8usize,
    ) {
        let mut world = World::new(1, 0, true);
        play(&mut world, [join(0), Step::Drive(0, 1)]);
        let mut joins = 1;
        for step in moves {
            match step {
                0 if joins < count => {
                    joins += 1;
                    play(&mut world, [join(0), Step::Drive(0, 1)]);
                }
                1 => drop(play(&mut world, [Step::Flush(0, 1)])),
                2 => drop(play(&mut world, [Step::Serve(0)])),
                _ => {
                    // Do not let the client receive the reply to the listing yet, because it grants
                    // the lock.
                    let mut next = world.clone();
                    play(&mut next, [Step::Receive(0), Step::Drive(0, 1)]);
                    if next.clients[0].holds.is_empty() {
                        world = next;
                    }
                }
            }
        }
        while joins < count {
            joins += 1;
            play(&mut world, [join(0), Step::Drive(0, 1)]);
        }
        play(&mut world, [round_trip(0), round_trip(0)].concat());
        prop_assert_eq!(requests(&world, 0).creates as usize, count);
        prop_assert!(requests(&world, 0).lists <= 2);
        prop_assert_eq!(requests(&world, 0).all() as usize, count + requests(&world, 0).lists as usize);
        world.finish().map_err(TestCaseError::fail)?;
    }
}
