//! The library's only source of randomness: the operating system, through the `uuid` crate.

use uuid::Uuid;

pub(crate) fn bits() -> u64 {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    // Some bits of a version 4 UUID are fixed. The rotation combines them with random bits of the
    // other half.
    high.rotate_left(24) ^ low
}

/// Returns a random number between 0 and 1.
pub(crate) fn fraction() -> f64 {
    let bits = u32::try_from(bits() >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_now_set_and_now_not() {
        let draws: Vec<_> = (0..64).map(|_| bits()).collect();
        assert_eq!(draws.iter().fold(0, |any, bits| any | bits), u64::MAX);
        assert_eq!(draws.iter().fold(u64::MAX, |all, bits| all & bits), 0);
    }

    #[test]
    fn a_fraction_is_between_0_and_1() {
        for _ in 0..64 {
            assert!((0.0..=1.0).contains(&fraction()));
        }
    }
}
