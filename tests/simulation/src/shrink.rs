//! Shrinks a failing plan: removes faults and contenders as long as the plan still fails without
//! them.

use crate::plan::Plan;
use crate::world::{Records, simulate};

/// Returns the smallest plan that still fails.
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
