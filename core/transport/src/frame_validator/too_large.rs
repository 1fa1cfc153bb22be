use std::fmt;

/// Why a reply was not read. The request that it answers fails, and nothing else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// A reply of so many KiB, rounded up.
    Size {
        /// How many.
        kib: u32,
    },
    /// A list of so many names.
    Names {
        /// How many.
        count: u32,
    },
}

/// The least that is reckoned for a name, however short it is. One of 50 bytes in a listing takes about 600 at the
/// largest: in three buffers, as a string, and as a node of a queue. So one listing takes 40 MiB at most.
const NAME: usize = 256;

/// Below all error codes of servers.
const SIZES: u32 = 1 << 30;
const NAMES: u32 = 1 << 29;

impl TooLarge {
    /// How many names a list may have where a frame may have `max_frame` bytes.
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

    /// The error code with which such a request fails: the only thing about it that passes through the client crate.
    pub(super) fn code(self) -> i32 {
        let code = match self {
            Self::Size { kib } => SIZES | kib.min(SIZES - 1),
            Self::Names { count } => NAMES | count.min(NAMES - 1),
        };
        -i32::from_ne_bytes(code.to_ne_bytes())
    }

    /// What an error code means, if it is one of these. Servers cannot send them: the guard lets only theirs pass.
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
