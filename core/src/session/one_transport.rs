//! A compile-time check that the ZooKeeper client and zklock use the same copy of the transport
//! crate.
//!
//! The `[patch.crates-io]` lines replace two crates with stand-in crates from zklock's repository.
//! The stand-in crates use the transport crate from this repository. If zklock itself comes from a
//! registry, it uses the transport crate from the registry, unless a third line of
//! `[patch.crates-io]` replaces that crate too. With two copies of the transport crate, zklock's
//! settings would have no effect: connections would not be encrypted, limited in rate or checked,
//! just as without the stand-in crates.

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
