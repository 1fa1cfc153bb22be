//! Differential test: the embedded server and Apache ZooKeeper get the same requests from several
//! sessions, and must send the same replies and events.
//!
//! Both servers get random sequences of requests. Connections close, and sessions are resumed and
//! expire. This test decodes every byte of every reply and event with code that the server does not
//! share. It compares all of them, with these exceptions:
//!
//! | Not compared exactly | Reason | Compared instead |
//! |---|---|---|
//! | the order of children, of a session's ephemeral nodes, of identities | undefined in the real server | the sets |
//! | the order of the events when a session ends | the real server deletes the session's nodes in no fixed order | the set, and its position among other events |
//! | the order of neighboring identities in an ACL | `auth` expands in the order of the identities | the set |
//! | zxids | the servers start with different zxids | the distance from the sequence's first zxid |
//! | session ids and passwords | random | which session is meant; whether there is a password |
//! | times of Stats | two clocks | whether there is a time, and that both are within 10 seconds |
//!
//! Both servers have the same tick and the same limits for session timeouts: the test queries the
//! real server for its limits. Neither server removes containers and TTL nodes while the test runs.
//! The test reads, writes and deletes nodes of `/zookeeper` only where no quota is set, because the
//! embedded server has no quotas.
//!
//! The test leaves out these requests:
//! - A `createTTL` whose mode is not a TTL mode and whose time to live is negative. ZooKeeper 3.9.5
//!   accepts this request, and crashes when it applies the transaction.
//! - SASL (102), because the embedded server does not support it.
//! - `createSession` (-10), because it is internal to the servers.
//!
//! The test needs a real server, so it is ignored unless `tests/unit/test_differential.py` runs it
//! with these variables:
//! - `ZKLOCK_REAL_ZOOKEEPER`: the server's address. The server needs
//!   `zookeeper.extendedTypesEnabled=true`, a long `znode.container.checkIntervalMs`, and
//!   permission for the word `conf`.
//! - `ZKLOCK_SEQUENCES`: number of sequences.
//! - `ZKLOCK_SEED`: the seed, a number. If it is not set, the seed is random.
//! - `ZKLOCK_REPLAY`: the digits that a failure printed. Only that sequence runs.

mod genes;
mod messages;
mod pair;
mod replies;
mod side;
mod steps;

use std::cell::RefCell;
use std::env;
use std::fmt::Write as _;
use std::future;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use zklock_embedded::{Server, Settings};

use genes::{Gene, steps};
use pair::{Pair, Tally};

/// Maximum length of a sequence in genes.
const LONGEST: usize = 60;
/// Maximum number of runs to find a shorter failing sequence.
const SHRINKING: u32 = 2000;

#[test]
#[ignore = "needs a real server: tests/unit/test_differential.py runs it"]
fn both_servers_say_the_same() {
    let real = env::var("ZKLOCK_REAL_ZOOKEEPER").expect("ZKLOCK_REAL_ZOOKEEPER: a server's address");
    let ours = start(same_settings(&real));
    let pair = RefCell::new(Pair::new([real, ours]));
    if let Ok(digits) = env::var("ZKLOCK_REPLAY") {
        let genes = from_digits(&digits);
        if let Err(difference) = pair.borrow_mut().run(&steps(&genes)) {
            panic!("{}\n{}", difference.0, shown(&genes));
        }
        return;
    }
    let count: u32 = number("ZKLOCK_SEQUENCES").unwrap_or(300);
    let seed: u64 = number("ZKLOCK_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let first = RefCell::new(None);
    let begun = Instant::now();
    let result = runner(count, seed).run(&vec(any::<Gene>(), 1..LONGEST), |genes| {
        pair.borrow_mut().run(&steps(&genes)).map_err(|difference| {
            first.borrow_mut().get_or_insert_with(|| format!("{}\n{}", difference.0, shown(&genes)));
            TestCaseError::fail(difference.0)
        })
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, genes)) => {
            let first = first.take().unwrap_or_default();
            panic!("seed {seed}\n{first}\n\nShorter:\n{why}\n{}", shown(&genes));
        }
        Err(error) => panic!("seed {seed}: {error}"),
    }
    let tally = &pair.borrow().tally;
    report(&format!("seed {seed}, {:.1} s, {}", begun.elapsed().as_secs_f64(), summary(tally)));
    if count >= 300 {
        check_coverage(tally);
    }
}

fn start(settings: Settings) -> String {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let server = Server::start_with("127.0.0.1:0", settings).await.expect("a free port");
            tell.send(server.hosts()).expect("somebody who waits");
            future::pending::<()>().await;
        });
    });
    told.recv().expect("a server that starts")
}

/// Returns settings with the limits that the real server reports.
fn same_settings(real: &str) -> Settings {
    let mut stream = TcpStream::connect(real).expect("a server that listens");
    stream.write_all(b"conf").expect("a server that listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a server that answers");
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    Settings {
        tick: value("tickTime"),
        min_timeout: value("minSessionTimeout"),
        max_timeout: value("maxSessionTimeout"),
        reap_interval: u64::MAX / 4,
        ttl_nodes: true,
        seed: RandomState::new().hash_one(1),
        ..Settings::default()
    }
}

fn runner(cases: u32, seed: u64) -> TestRunner {
    let config = Config {
        cases,
        max_shrink_iters: SHRINKING,
        failure_persistence: None,
        max_global_rejects: 0,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Formats a sequence for reading and for repeating it.
fn shown(genes: &[Gene]) -> String {
    let mut text = String::new();
    for (i, step) in steps(genes).iter().enumerate() {
        writeln!(text, "{i:3} {step:?}").unwrap_or_default();
    }
    text += "to run it again: ZKLOCK_REPLAY=";
    for byte in genes.as_flattened() {
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text
}

fn from_digits(digits: &str) -> Vec<Gene> {
    let byte = |i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hexadecimal digits");
    let bytes: Vec<u8> = (0..digits.len() / 2).map(|i| byte(2 * i)).collect();
    bytes.chunks_exact(8).map(|gene| gene.try_into().expect("8 bytes")).collect()
}

fn summary(tally: &Tally) -> String {
    let mut text = format!(
        "{} sequences, {} requests, {} expiries, {} connections kicked, {} refused, events {:?}",
        tally.sequences, tally.requests, tally.lapses, tally.kicked, tally.refused, tally.events,
    );
    let mut names: Vec<&str> = tally.outcomes.keys().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    for name in names {
        let outcomes = tally.outcomes.iter().filter(|((other, _), _)| other == name);
        let counts: Vec<String> = outcomes.map(|((_, error), count)| format!("{error}: {count}")).collect();
        write!(text, "\n  {name:20} {}", counts.join(", ")).unwrap_or_default();
    }
    text
}

/// Checks that the test covered enough, because two servers that refuse everything also agree. Each
/// request must have succeeded and failed often enough, and every kind of event must have occurred.
fn check_coverage(tally: &Tally) {
    let outcomes =
        |name: &str, error: i32| tally.outcomes.get(&(name.to_owned(), error)).copied().unwrap_or_default();
    for (name, errors) in [
        ("Create", &[0, -8, -101, -110, -114][..]),
        ("Delete", &[0, -8, -101, -103, -111]),
        ("DeleteContainer", &[0, -101]),
        ("SetData", &[0, -8, -101, -103]),
        ("SetAcl", &[0, -101, -103, -114]),
        ("Check", &[-6]),
        ("Exists", &[0, -101]),
        ("GetData", &[0, -101]),
        ("GetChildren", &[0, -101]),
        ("GetChildren2", &[0, -101]),
        ("GetAcl", &[0, -101]),
        ("GetEphemerals", &[0]),
        ("GetAllChildrenNumber", &[0, -101]),
        ("WhoAmI", &[0]),
        ("Sync", &[0]),
        ("Ping", &[0]),
        ("Multi", &[0]),
        ("MultiRead", &[0]),
        ("SetWatches", &[0]),
        ("SetWatches2", &[0]),
        ("AddWatch", &[0]),
        ("CheckWatches", &[0, -121]),
        ("RemoveWatches", &[0, -121]),
        ("Auth", &[0, -115]),
        ("Reconfig", &[-123]),
        ("CloseSession", &[0]),
        ("Unknown", &[-6]),
        ("Cut", &[-5]),
    ] {
        for error in errors {
            assert!(outcomes(name, *error) > 0, "{name} never answered {error}: {}", summary(tally));
        }
    }
    let forbidden = tally.outcomes.keys().filter(|(_, error)| *error == -102).count();
    assert!(forbidden > 0, "nothing was ever forbidden");
    for kind in ['1', '2', '3', '4'] {
        assert!(tally.events.get(&kind).is_some_and(|count| *count > 20), "too few events {kind}");
    }
    assert!(tally.lapses > 0 && tally.kicked > 0 && tally.refused > 0, "{}", summary(tally));
}

#[expect(clippy::print_stdout, reason = "for who runs it by hand")]
fn report(text: &str) {
    println!("{text}");
}
