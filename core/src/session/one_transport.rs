//! A check at compile time that the ZooKeeper client and zklock have one and the same transport.
//!
//! The stand-ins come from the repository, and bring a transport of that source. If zklock itself comes from a registry,
//! its transport does too, unless a third line of `[patch.crates-io]` names the repository's. With two copies each
//! connection would go without encryption, pace and guard, as if no stand-in was there.

#[diagnostic::on_unimplemented(
    message = "zklock: `[patch.crates-io]` replaces `async-io` and `async-net`, but not `zklock-transport`",
    label = "these timers belong to a second copy of `zklock-transport`",
    note = "add the line `zklock-transport = {{ git = \"https://github.com/zklock/zklock\" }}` with the same tag as the \
            other two lines"
)]
#[allow(dead_code, reason = "Rust 1.85 does not count its use in a constant without a name")]
trait OfOurTransport {}

impl OfOurTransport for zklock_transport::Timer {}

#[allow(dead_code, reason = "as above")]
const fn check<T: OfOurTransport>() {}

const _: () = check::<async_io::Timer>();
