//! Makes a plan that fails smaller: fewer faults and contenders, as long as something is still wrong.

use crate::plan::Plan;
use crate::world::{Records, simulate};

/// Leaves out what a plan can do without and still fail.
pub fn shrink(plan: &Plan) -> Plan {
    let mut smallest = plan.clone();
    loop {
        let faults = smallest.faults.iter().map(|(number, _)| smallest.clone().without(&[*number], &[]));
        let contenders = smallest.contenders.iter().map(|number| smallest.clone().without(&[], &[*number]));
        let smaller: Vec<_> = faults.chain(contenders).collect();
        match smaller.into_iter().find(|plan| !simulate(plan, Records::default()).violations.is_empty()) {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}
