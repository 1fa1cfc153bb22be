//! Counts the sequence numbers below a given number, without examining each one.

use std::collections::BTreeMap;

/// Number of bits in a digit of a sequence number. Larger digits make inserting and removing
/// cheaper, and queries more expensive. Numbers are inserted and removed far more often than
/// queried.
const DIGIT: u32 = 7;

/// Number of these digits in a sequence number. A sequence number has at most ten decimal digits,
/// which are 34 bits.
const DIGITS: u32 = 5;

/// A multiset of sequence numbers that can count the numbers below a given one. The count must be
/// fast, because thousands of waiters can time out together and each error reports how many
/// contenders were ahead of the waiter.
#[derive(Clone, Debug, Default)]
pub(in crate::queue::machine) struct Ranks {
    /// One of the numbers. It is not in `counts`, so that a single number needs no heap memory.
    one: Option<u64>,
    /// Number of sequence numbers with each prefix. A prefix is a number without some of its last
    /// digits.
    counts: BTreeMap<(u32, u64), usize>,
}

impl Ranks {
    pub(in crate::queue::machine) fn insert(&mut self, number: u64) {
        if self.one.is_none() {
            self.one = Some(number);
            return;
        }
        for digit in 0..DIGITS {
            *self.counts.entry((digit, number >> (digit * DIGIT))).or_default() += 1;
        }
    }

    pub(in crate::queue::machine) fn remove(&mut self, number: u64) {
        if self.one.take_if(|one| *one == number).is_some() {
            return;
        }
        for digit in 0..DIGITS {
            let prefix = (digit, number >> (digit * DIGIT));
            if let Some(count) = self.counts.get_mut(&prefix) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&prefix);
                }
            }
        }
    }

    /// Returns the number of sequence numbers below this one. For each digit of `number`, adds up
    /// the numbers that have a smaller digit there and the same digits before it.
    pub(in crate::queue::machine) fn below(&self, number: u64) -> usize {
        let smaller = |digit: u32| {
            let prefix = number >> (digit * DIGIT);
            let first = prefix >> DIGIT << DIGIT;
            self.counts.range((digit, first)..(digit, prefix)).map(|(_, count)| count).sum::<usize>()
        };
        let one = usize::from(self.one.is_some_and(|one| one < number));
        one + (0..DIGITS).map(smaller).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_below_as_counting_tells() {
        let mut ranks = Ranks::default();
        let mut numbers: Vec<u64> = (0..300).map(|number| number * number * number % 9_999_999_967).collect();
        numbers.extend([0, 15, 16, 17, 2_147_483_647, 9_999_999_999]);
        for number in &numbers {
            ranks.insert(*number);
        }
        while let Some(gone) = numbers.pop() {
            let below = |number: u64| numbers.iter().filter(|other| **other < number).count();
            ranks.remove(gone);
            for number in [gone, gone + 1, 0, 4096, 16_384, 9_999_999_999] {
                assert_eq!(ranks.below(number), below(number), "{number}");
            }
        }
        assert!(ranks.counts.is_empty());
    }
}
