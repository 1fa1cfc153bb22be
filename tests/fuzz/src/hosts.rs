//! Fuzzes hosts strings, as users write them in options and in the environment.

use crate::allocations::Meter;
use crate::config::hosts::Hosts;

/// Maximum size of an error message. The message contains a limited part of the hosts string
/// several times, in escaped form.
const LONGEST_REFUSAL: usize = 32 * 1024;

/// Bytes allocated even for the shortest string.
const LEAST: usize = 64 * 1024;

/// Number of bytes allocated for each byte of input. The worst case is a list of servers with one
/// character each, because each server also needs a port and an entry in a list.
const EXPANSION: usize = 64;

/// Parses a hosts string and checks the result.
pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut meter = Meter::new();
    let parsed = meter.count(|| Hosts::given_or_default(Some(&text)));
    meter.assert_at_most(LEAST + EXPANSION * text.len(), "a hosts string");
    match parsed {
        Ok(hosts) => {
            assert!(hosts.chroot.is_empty() || hosts.chroot.starts_with('/') && !hosts.chroot.ends_with('/'));
            for server in hosts.servers.split(',') {
                let (host, port) = server.rsplit_once(':').expect("a port");
                assert!(!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0), "{server:?}");
                assert!(!host.contains(':') || host.starts_with('[') && host.ends_with(']'), "{server:?}");
            }
            let shown = hosts.to_string();
            assert_eq!(Hosts::given_or_default(Some(&shown)).ok().as_ref(), Some(&hosts), "{shown:?}");
            let ensemble = hosts.ensemble();
            assert!(ensemble.windows(2).all(|pair| pair[0] < pair[1]), "{ensemble:?}");
            let mut reversed: Vec<_> = hosts.servers.split(',').collect();
            reversed.reverse();
            let reversed = Hosts { servers: reversed.join(",").to_uppercase(), chroot: hosts.chroot.clone() };
            assert_eq!((reversed.ensemble(), reversed.are_here()), (ensemble, hosts.are_here()));
            let below = format!("{}/lock", hosts.chroot);
            assert_eq!(hosts.below_chroot(&below), "/lock");
        }
        Err(refusal) => {
            let message = refusal.to_string();
            assert_eq!(refusal.code(), "BAD_ARGUMENT", "{message}");
            assert!(message.starts_with("hosts: "), "{message}");
            assert!(message.len() <= LONGEST_REFUSAL, "a refusal of {} bytes", message.len());
            assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
        }
    }
}
