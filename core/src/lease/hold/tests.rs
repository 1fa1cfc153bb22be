//! Tests for the state of a hold, by the clock and after a loss.

use crate::lease::hold::*;
use crate::lease::owner::Owner;

/// A driver that records the reasons for which holds expired.
#[derive(Default)]
struct Driver(Mutex<Vec<LossReason>>);

impl Report for Driver {
    fn report(&self, _: &Arc<str>, notice: Notice) -> Result<()> {
        if let Notice::Expired { reason, .. } = notice {
            self.0.lock().unwrap().push(reason);
        }
        Ok(())
    }

    fn no_answer(&self) -> Error {
        Error::unanswered()
    }

    fn heard_since(&self, _: tokio::time::Instant) -> bool {
        false
    }
}

/// Creates a hold with a term of 30 seconds.
fn hold(max_hold: Option<Duration>) -> (Arc<Driver>, Hold) {
    let driver = Arc::new(Driver::default());
    let place = LockPath::new("", "/lock", "").unwrap();
    let holds = HoldTable::new(place, ForkGuard::new(), Arc::default(), Arc::clone(&driver) as _);
    let term = Term::new(Duration::from_secs(60), 1);
    term.prove(BootInstant::now(), 1);
    let claim = AcquireRequest { max_hold, ..AcquireRequest::new(Owner::new(), Kind::Exclusive, None) };
    let node = NodeName::parse("lock-0000000001").unwrap();
    let grant = Grant { node, fencing_token: 1, session_id: 1, term: Arc::new(term) };
    (driver, Hold::new(Arc::new(holds), claim, grant, None))
}

#[test]
fn what_is_held_too_long_is_lost_by_the_clock_whether_or_not_a_timer_says_so() {
    let (driver, hold) = hold(Some(Duration::ZERO));
    assert_eq!(hold.remaining(), Duration::ZERO);
    assert_eq!(hold.state(), LeaseState::Lost(LossReason::HeldTooLong));
    assert_eq!(*driver.0.lock().unwrap(), [LossReason::HeldTooLong]);
    assert_eq!(hold.state(), LeaseState::Lost(LossReason::HeldTooLong));
    assert_eq!(driver.0.lock().unwrap().len(), 1, "the driver is told once");
}

#[test]
fn a_loss_is_final_and_keeps_its_reason() {
    let lost = LeaseState::Lost(LossReason::HeldTooLong);
    let hold = Arc::new(hold(Some(Duration::ZERO)).1);
    let (holds, node) = (Arc::clone(&hold.holds), hold.grant.node.clone());
    holds.all().add(&hold);
    holds.suspend(&node, true);
    assert_eq!(hold.state_cell.state(), LeaseState::Suspended);
    assert_eq!(hold.state(), lost);
    // The driver notices the loss later than the holder.
    for suspended in [true, false] {
        holds.suspend(&node, suspended);
        assert_eq!(hold.state_cell.state(), lost);
    }
    assert!(holds.lose(&node, LossReason::SessionExpired));
    assert_eq!(hold.state(), lost);
}

#[test]
fn a_limit_shortens_what_remains_and_a_long_one_leaves_it_to_the_term() {
    let remaining = |max_hold| hold(max_hold).1.remaining();
    let second = Duration::from_secs(1);
    assert!((second * 29..second * 30).contains(&remaining(None)));
    assert!((second * 29..second * 30).contains(&remaining(Some(second * 3600))));
    assert!((second * 4..second * 5).contains(&remaining(Some(second * 5))));
    assert_eq!(hold(Some(second * 5)).1.state(), LeaseState::Held);
}
