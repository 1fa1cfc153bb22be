//! Names of arguments. The error messages begin with them.

/// Name of an argument.
pub(crate) trait Argument {
    const NAME: &'static str;
}

macro_rules! arguments {
    ($($marker:ident = $name:literal),* $(,)?) => {$(
        #[doc = concat!("`", $name, "`.")]
        pub(crate) struct $marker;

        impl Argument for $marker {
            const NAME: &'static str = $name;
        }
    )*};
}

arguments! {
    Path = "path",
    Node = "node",
    Hosts = "hosts",
    SharedCount = "shared_count",
    SlotKey = "key",
    Period = "period",
    Record = "record",
    Label = "label",
    Id = "id",
    Acl = "acl",
    ParentAcl = "parent_acl",
    Naming = "naming",
    Timeout = "timeout",
    ConnectTimeout = "connect_timeout",
    SessionTimeout = "session_timeout",
    MaxHold = "max_hold",
    Grace = "grace",
    MaxWaiters = "max_waiters",
    Cohort = "cohort",
    Linger = "linger",
    Seconds = "seconds",
    Reentrant = "reentrant",
    Wait = "wait",
    Drain = "drain",
    Identify = "identify",
    Connect = "connect",
    Count = "count",
    Permits = "permits",
    Version = "version",
    Port = "port",
    MaxFrame = "max_frame",
    Signum = "signum",
    AuthFile = "auth_file",
    Ca = "ca",
    Cert = "cert",
    Key = "key",
}
