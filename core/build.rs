//! Stops the build of a program that uses our stand-in for only one of the crates `async-io` and
//! `async-net`. The ZooKeeper client depends on both crates.
//!
//! A program must use both stand-ins or neither. If it uses only our `async-io`, the `async-net` of
//! the registry does not compile. If it uses only our `async-net`, timers and sockets use two
//! different reactors. If it uses neither, it has the stock transport, which works.
//!
//! This script has no dependencies, so cargo runs it early: its message usually appears before
//! another crate fails to compile. If all other crates are already compiled, `async-net` can fail
//! first. `cargo build --keep-going` then shows the message.

use std::env;
use std::process::ExitCode;

const STAND_INS: [(&str, &str); 2] =
    [("async-io", "DEP_ZKLOCK_ASYNC_IO_STAND_IN"), ("async-net", "DEP_ZKLOCK_ASYNC_NET_STAND_IN")];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(zklock_stand_ins)");
    let [(first, has_first), (second, has_second)] =
        STAND_INS.map(|(name, variable)| (name, env::var_os(variable).is_some()));
    let missing = match (has_first, has_second) {
        (true, true) => {
            println!("cargo::rustc-cfg=zklock_stand_ins");
            return ExitCode::SUCCESS;
        }
        (false, false) => return ExitCode::SUCCESS,
        (true, false) => second,
        (false, true) => first,
    };
    println!(
        "cargo::error=zklock: `[patch.crates-io]` replaces only one of `{first}` and `{second}`. Add the line \
         `{missing} = {{ git = \"https://github.com/zklock/zklock\" }}` with the same tag as the other line, then run `cargo \
         update -p {missing}`. Or leave out both lines: docs/rust.md has a table of the differences"
    );
    ExitCode::FAILURE
}
