//! Fuzzes the data of nodes: zklock's JSON, and arbitrary data of other programs.

use serde_json::Value;

use crate::allocations::Meter;
use crate::queue::NodeName;
use crate::queue::contender::{Contender, ContenderInfo, NodeSnapshot, stated_permits};

/// Maximum number of bytes that a parsed JSON value takes for each byte of its text. The worst case
/// is a list of empty lists, because each of these reserves room for four elements.
const EXPANSION: usize = 128;

/// Bytes allocated even for the shortest data.
const LEAST: usize = 4096;

/// Reads the data of a node as production code does for listings, for deadlock reports, and for
/// requests to give up a lock.
pub fn check(input: &[u8]) {
    let mut meter = Meter::new();
    let name = NodeName::parse("_c_0123-lock-0000000007").expect("a node's name");
    let snapshot = NodeSnapshot { owner: 1, czxid: 2, data: input.into(), data_length: input.len() };
    let seen = meter.count(|| Contender::seen(0, &name, &snapshot));
    assert_eq!(seen.data, input, "the data is shown unchanged");
    assert_eq!(seen.snapshot(), snapshot);
    let value = serde_json::from_slice::<Value>(input).ok();
    assert_eq!(seen.about, value.as_ref().and_then(ContenderInfo::parse));
    assert_eq!(seen.permits, value.as_ref().and_then(stated_permits));
    let revoked = meter.count(|| ContenderInfo::revoked_data(input));
    assert_eq!(revoked.is_some(), value.as_ref().is_some_and(Value::is_object));
    // Skip data with fractions: zklock writes no fractions, and parsing can change the last digit
    // of a fraction.
    if let Some(revoked) = revoked.filter(|_| !value.as_ref().is_some_and(has_fraction)) {
        // A request to give up the lock sets only the member `revoked`. A second request changes
        // nothing.
        let again = ContenderInfo::revoked_data(&revoked);
        assert_eq!(again.as_ref(), Some(&revoked));
        let written: Value = serde_json::from_slice(&revoked).expect("what was written is read");
        let about = ContenderInfo::parse(&written);
        assert_eq!(about, seen.about.map(|about| ContenderInfo { revoked: true, ..about }));
        let mut expected = value.unwrap_or_default();
        expected["revoked"] = true.into();
        assert_eq!(written, expected);
    }
    meter.assert_at_most(LEAST + EXPANSION * input.len(), "the data of a node");
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(all) => all.iter().any(has_fraction),
        Value::Object(all) => all.values().any(has_fraction),
        _ => false,
    }
}
