//! Credentials and logins that a client presents to the servers.

use std::fmt;

use super::secret::Secret;

/// Credentials for one authentication scheme. `Debug` output and messages never contain the secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Credential {
    pub(crate) scheme: String,
    pub(crate) secret: Secret<Vec<u8>>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// A user and password for SASL's DIGEST-MD5. `Debug` output and messages never contain the
/// password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: Secret<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let credential = Credential { scheme: "digest".into(), secret: b"app:secret".to_vec().into() };
        assert!(!format!("{credential:?}").contains("secret"));
    }
}
