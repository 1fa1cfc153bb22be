//! One write of a transaction, as the handle collects it and the driver sends it.

use std::fmt;

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create { path: String, data: Vec<u8> },
    SetData { path: String, data: Vec<u8>, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
    Check { path: String, version: i32 },
}

impl Operation {
    /// What it writes to.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::SetData { path, .. }
            | Self::Delete { path, .. }
            | Self::Check { path, .. } => path,
        }
    }

    /// The version that it asks for.
    pub(crate) fn version(&self) -> Option<i32> {
        match self {
            Self::Create { .. } => None,
            Self::SetData { version, .. } | Self::Delete { version, .. } => *version,
            Self::Check { version, .. } => Some(*version),
        }
    }

    /// What it writes.
    pub(crate) fn data(&self) -> &[u8] {
        match self {
            Self::Create { data, .. } | Self::SetData { data, .. } => data,
            Self::Delete { .. } | Self::Check { .. } => &[],
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Create { .. } => "create",
            // No name of a method: those differ from language to language.
            Self::SetData { .. } => "set the data of",
            Self::Delete { .. } => "delete",
            Self::Check { .. } => "check",
        };
        write!(f, "{verb} {:?}", self.path())
    }
}
