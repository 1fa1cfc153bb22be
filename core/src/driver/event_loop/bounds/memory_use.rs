//! Tests how many bytes of memory a contender needs in the driver and in the handle that waits for
//! the lock.

use super::event_costs::{Desk, deliver, node, path, queue};
use crate::driver::event_loop::bounds::allocations::kept;
use crate::queue::{Action, Event, NodeName, Outcome};

const MANY: u32 = 1_000;

/// Maximum number of bytes for each contender.
const MOST: isize = 4 * 1024;

fn each(bytes: isize) -> isize {
    bytes / isize::try_from(MANY).expect("a thousand")
}

fn queue_up(desk: &mut Desk, at: &str, number: u32) {
    let join = desk.join(at);
    assert!(desk.driver.drain_inbox(std::iter::once(join)).is_continue());
    let id = desk.at(at);
    let directory = desk.driver.directories.get_to_flush(id).expect("it waits there");
    for event in [Event::SessionBegan(1), Event::Connected, Event::TermBegan] {
        directory.on_event(event);
    }
    let mut asked = Vec::new();
    let mut all = vec!["lock-0000000000".to_owned()];
    all.extend(directory.places_behind(None).map(|name| name.as_str().to_owned()));
    while let Some(action) = directory.next_action() {
        match action {
            Action::Create(ticket, _, prefix) => {
                all.push(format!("{prefix}{number:010}"));
                asked.push(Event::Created(ticket, Outcome::Done((format!("{prefix}{number:010}"), 1))));
            }
            Action::List { ticket, .. } => asked.push(Event::Listed(ticket, Outcome::Done(all.clone()))),
            _ => {}
        }
    }
    for event in asked {
        deliver(&mut desk.driver, queue(id, event));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_waiter_among_a_thousand_for_one_lock_takes_at_most_four_kibibytes() {
    let mut desk = Desk::new();
    let bytes = kept(|| {
        for number in 1..=MANY {
            queue_up(&mut desk, "/l", number);
        }
    });
    let directory = desk.driver.directories.get(desk.at("/l")).expect("they wait there");
    assert_eq!(directory.places(), MANY as usize);
    assert!(each(bytes) <= MOST, "{} bytes", each(bytes));
    assert!(each(bytes) > 500, "{} bytes: it was not counted", each(bytes));
}

#[tokio::test(flavor = "current_thread")]
async fn a_waiter_for_a_lock_of_its_own_takes_at_most_4_500_bytes() {
    let mut desk = Desk::new();
    let bytes = kept(|| {
        for number in 1..=MANY {
            queue_up(&mut desk, &path(number.into()), 1);
        }
    });
    assert_eq!(
        desk.driver.directories.iter().filter(|directory| directory.places() == 1).count(),
        MANY as usize
    );
    // Includes all that the client keeps for the path.
    assert!(each(bytes) <= 4_500, "{} bytes", each(bytes));
}

#[tokio::test(flavor = "current_thread")]
async fn a_hold_of_a_lock_of_its_own_takes_at_most_3_200_bytes_and_a_long_one_2_950() {
    let mut desk = Desk::new();
    let node: NodeName = node();
    let held = |bytes: isize, most: isize| {
        assert!(each(bytes) <= most, "{} bytes", each(bytes));
        assert!(each(bytes) > 500, "{} bytes: it was not counted", each(bytes));
    };
    let mut bytes = kept(|| {
        desk = Desk::holding(MANY.into());
    });
    assert!(desk.driver.directories.iter().all(|directory| directory.has_hold_on(&node)));
    // Includes the lease and all that the client keeps for the path.
    held(bytes, 3_200);
    bytes += kept(|| {
        for number in 0..MANY {
            let id = desk.at(&path(number.into()));
            deliver(&mut desk.driver, queue(id, Event::WatchHold(node.clone())));
        }
    });
    held(bytes, 2_950);
}
