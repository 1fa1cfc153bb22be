//! The protocol's error codes.

/// The reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    /// The operation was not executed, because an earlier operation of the transaction failed.
    RuntimeInconsistency = -2,
    Marshalling = -5,
    Unimplemented = -6,
    BadArguments = -8,
    NoNode = -101,
    NoAuth = -102,
    BadVersion = -103,
    NoChildrenForEphemerals = -108,
    NodeExists = -110,
    NotEmpty = -111,
    InvalidAcl = -114,
    AuthFailed = -115,
    NoWatcher = -121,
    ReconfigDisabled = -123,
}

/// The code that means success.
pub(crate) const OK: i32 = 0;

impl Code {
    /// Returns the number that is sent for this code.
    pub(crate) fn number(self) -> i32 {
        self as i32
    }
}
