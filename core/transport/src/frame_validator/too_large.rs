use std::fmt;

/// The reason why a reply was not read. Only the request that it belongs to fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// The reply is too large.
    Size {
        /// Size of the reply in KiB, rounded up.
        kib: u32,
    },
    /// The list has too many names.
    Names {
        /// Number of names.
        count: u32,
    },
}

/// A list can have one name for each 256 bytes of `max_frame`. A listed name of 50 bytes needs up
/// to 600 bytes of memory: in three buffers, as a string, and as a node of a queue. With this
/// limit, one listing needs at most 40 MiB.
const NAME: usize = 256;

/// Base values of the error codes, below all error codes of servers.
const SIZES: u32 = 1 << 30;
const NAMES: u32 = 1 << 29;

impl TooLarge {
    /// Returns the maximum number of names in a list, for a maximum frame size of `max_frame`
    /// bytes.
    #[must_use]
    pub fn most_names(max_frame: usize) -> usize {
        max_frame / NAME
    }

    pub(super) fn size(bytes: usize) -> Self {
        Self::Size { kib: u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX) }
    }

    pub(super) fn names(count: usize) -> Self {
        Self::Names { count: u32::try_from(count).unwrap_or(u32::MAX) }
    }

    /// Returns the error code of the failed request. The reason is encoded in it, because the
    /// client crate passes on only the code.
    pub(super) fn code(self) -> i32 {
        let code = match self {
            Self::Size { kib } => SIZES | kib.min(SIZES - 1),
            Self::Names { count } => NAMES | count.min(NAMES - 1),
        };
        -i32::from_ne_bytes(code.to_ne_bytes())
    }

    /// Decodes the error code of a request whose reply was too large, or returns `None` for any
    /// other code. Servers cannot send these codes, because the validator accepts only ZooKeeper's
    /// own codes.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        let code = u32::from_ne_bytes(code.checked_neg()?.to_ne_bytes());
        if code & SIZES != 0 && code < SIZES << 1 {
            Some(Self::Size { kib: code - SIZES })
        } else if code & NAMES != 0 && code < SIZES {
            Some(Self::Names { count: code - NAMES })
        } else {
            None
        }
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { kib } => write!(f, "a reply of {kib} KiB"),
            Self::Names { count } => write!(f, "a list of {count} names"),
        }
    }
}
