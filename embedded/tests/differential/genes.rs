//! Maps random bytes, the genes, to steps. Every list of genes gives a valid sequence of steps. A
//! failing sequence can therefore be shortened by removing genes, and repeated from its genes in
//! hexadecimal digits.

use crate::steps::{Acl, Data, Op, Path, SESSIONS, Step};

/// The bytes that choose one step.
pub(crate) type Gene = [u8; 8];

// In each table, failing sequences shrink to the first entries.

const PATHS: &[Path] = &[
    Path::Below("/a"),
    Path::Below("/a/x"),
    Path::Below("/b"),
    Path::Below("/a/y"),
    Path::Below("/a/x/p"),
    Path::Below(""),
    Path::Below("/b/q-"),
    Path::Below("/a"),
    Path::Below("/a/x"),
    Path::Below("/b"),
    Path::Below("/a"),
    Path::Below("/a/x"),
    Path::Below("/b"),
    Path::Below("/a/y"),
    Path::Below("/a/x"),
    Path::Below("/b/q-"),
    Path::Below("/b/q-0000000000"),
    Path::Below("/b/q-0000000001"),
    Path::Below("/b/q-0000000002"),
    Path::Below("/a/x"),
    Path::Below("/a/0000000000"),
    Path::Below("/a/0000000001"),
    Path::Below("/b/"),
    Path::Below("/a/"),
    Path::Exactly("/"),
    Path::Below("/ab"),
    Path::Below("/a/y/z"),
    Path::Below("/a/y/"),
];

/// Invalid paths, and paths of the server's own nodes.
const ODD_PATHS: &[Path] = &[
    Path::Exactly(""),
    Path::Exactly("a"),
    Path::Exactly("//"),
    Path::Exactly("/zookeeper"),
    Path::Exactly("/zookeeper/config"),
    Path::Exactly("/zookeeper/quota"),
    Path::Below("//x"),
    Path::Below("/."),
    Path::Below("/../b"),
    Path::Below("/a\0b"),
    Path::Below("/\u{7f}"),
    Path::Below("/zo\u{eb}"),
    Path::Below("/\u{1f600}"),
    Path::Below("/\u{e000}"),
    Path::Below("/a b"),
    Path::Below("/..."),
];

const DATA: &[Data] = &[Some(b"x"), None, Some(b""), Some(b"longer"), Some(&[0xff; 20])];

const ANN: &str = "ann:RYbu6l5aZwqon8VWmkcGvezdzfc=";
const OPEN: (i32, &str, &str) = (31, "world", "anyone");
const ACLS: &[Acl] = &[
    Some(&[(31, "auth", "")]),
    Some(&[(31, "digest", ANN)]),
    Some(&[(1, "world", "anyone"), (30, "digest", ANN)]),
    Some(&[(1, "world", "anyone")]),
    Some(&[(30, "world", "anyone")]),
    Some(&[(17, "digest", ANN), (15, "world", "anyone")]),
    Some(&[(31, "ip", "127.0.0.1")]),
    Some(&[(31, "ip", "127.0.0.0/8"), (1, "ip", "10.0.0.1")]),
    Some(&[(31, "ip", "10.0.0.0/8")]),
    Some(&[OPEN, OPEN, (1, "world", "anyone")]),
    Some(&[(31, "auth", "x"), OPEN]),
    Some(&[(0, "world", "anyone")]),
    Some(&[(255, "world", "anyone")]),
    Some(&[]),
    None,
    Some(&[(31, "world", "someone")]),
    Some(&[(31, "digest", "ann")]),
    Some(&[(31, "nothing", "x")]),
    Some(&[(31, "ip", "127.0.0.1/33")]),
    Some(&[(31, "", "")]),
];

const VERSIONS: &[i32] = &[-1, -1, -1, -1, -1, 0, 0, 1, 2, -2, i32::MAX, i32::MIN];
const FLAGS: &[i32] = &[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 4, 5, 6, 7, -1];
const TTL_FLAGS: &[i32] = &[5, 6, 5, 6, 5, 6, 5, 6, 5, 6, 5, 6, 0, 1, 2, 3, 4, 7, -1];
const TTLS: &[i64] = &[
    100_000,
    100_000,
    100_000,
    100_000,
    100_000,
    100_000,
    0xff_ffff_ffff,
    0x100_0000_0000,
    0,
    -1,
    -2,
    i64::MIN,
];
const WATCH_KINDS: &[i32] = &[3, 1, 2, 4, 5, 3, 4, 5, 0, 6];
const WATCH_MODES: &[i32] = &[0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, -1];
const PROOFS: &[(&str, &str)] = &[
    ("digest", "ann:pw"),
    ("digest", "ann:pw"),
    ("digest", "bob:pw"),
    ("ip", ""),
    ("digest", "nocolon"),
    ("nothing", "x"),
];

fn pick<T: Clone>(from: &[T], byte: u8) -> T {
    from[usize::from(byte) % from.len()].clone()
}

fn path(byte: u8) -> Path {
    // One path in sixteen is from `ODD_PATHS`.
    if byte >= 240 { pick(ODD_PATHS, byte - 240) } else { pick(PATHS, byte) }
}

/// Prefers a few paths, so that later steps often use the watched nodes.
fn watched(byte: u8) -> Path {
    if byte < 208 { pick(&PATHS[..5], byte) } else { path(byte << 3) }
}

fn acl(byte: u8) -> Acl {
    // Most nodes are open to every client.
    if byte < 192 { Some(&[OPEN]) } else { pick(ACLS, byte) }
}

/// A function that makes an operation. The first byte of a gene chooses the function, according to
/// the weights.
type Make = fn(&Gene, &mut dyn Iterator<Item = Gene>) -> Op;

const OPS: &[(usize, Make)] = &[
    (16, |gene, _| create(1, *gene)),
    (16, |gene, _| Op::Delete { path: path(gene[2]), version: pick(VERSIONS, gene[3]) }),
    (8, |gene, _| create(15, *gene)),
    (12, |gene, _| Op::SetData {
        path: path(gene[2]),
        version: pick(VERSIONS, gene[3]),
        data: pick(DATA, gene[5]),
    }),
    (4, |gene, _| create(19, *gene)),
    (6, |gene, _| match create(21, *gene) {
        // This request crashes the real server, because the transaction passes all checks and then
        // cannot be applied.
        Op::Create { by, path, data, acl, flags, ttl } if !matches!(flags, 5 | 6) && ttl < 0 => {
            Op::Create { by, path, data, acl, flags, ttl: 100_000 }
        }
        op => op,
    }),
    (10, |gene, _| Op::Exists { path: path(gene[2]), watch: gene[3] % 4 != 0 }),
    (10, |gene, _| Op::GetData { path: path(gene[2]), watch: gene[3] % 4 != 0 }),
    (6, |gene, _| Op::GetChildren { path: path(gene[2]), watch: gene[3] % 4 != 0 }),
    (8, |gene, _| Op::GetChildren2 { path: path(gene[2]), watch: gene[3] % 4 != 0 }),
    (5, |gene, _| Op::GetAcl { path: path(gene[2]) }),
    (5, |gene, _| Op::SetAcl {
        path: match path(gene[2]) {
            // Without this, no client could change these nodes again.
            Path::Exactly(_) | Path::Below("") => Path::Below("/a"),
            below @ Path::Below(_) => below,
        },
        version: pick(VERSIONS, gene[3]),
        acl: acl(gene[4]),
    }),
    (3, |gene, _| Op::Sync { path: path(gene[2]) }),
    (12, |gene, rest| {
        Op::Multi(
            rest.take(usize::from(gene[2]) % 5).map(|gene| pick(WITHIN_MULTI, gene[0])(&gene)).collect(),
        )
    }),
    (5, |gene, rest| {
        Op::MultiRead(
            rest.take(usize::from(gene[2]) % 4)
                .map(|gene| match gene[0] % 2 {
                    0 => Op::GetData { path: path(gene[2]), watch: gene[3] % 4 == 1 },
                    _ => Op::GetChildren { path: path(gene[2]), watch: gene[3] % 4 == 1 },
                })
                .collect(),
        )
    }),
    (2, |gene, _| Op::Check { path: path(gene[2]), version: pick(VERSIONS, gene[3]) }),
    (2, |gene, _| Op::DeleteContainer { path: path(gene[2]) }),
    (12, |gene, _| Op::AddWatch { path: watched(gene[2]), mode: pick(WATCH_MODES, gene[3]) }),
    (5, |gene, _| Op::RemoveWatches { path: watched(gene[2]), kind: pick(WATCH_KINDS, gene[3]) }),
    (5, |gene, _| Op::CheckWatches { path: watched(gene[2]), kind: pick(WATCH_KINDS, gene[3]) }),
    (3, |gene, _| Op::SetWatches {
        ago: i64::from(gene[3] % 6),
        lists: [paths(gene[2]), paths(gene[4]), paths(gene[5])],
    }),
    (3, |gene, _| Op::SetWatches2 {
        ago: i64::from(gene[3] % 6),
        lists: [paths(gene[2]), paths(gene[4]), paths(gene[5]), paths(gene[6]), paths(gene[7])],
    }),
    (6, |gene, _| {
        let (scheme, proof) = pick(PROOFS, gene[3]);
        Op::Auth { scheme, proof }
    }),
    (3, |gene, _| Op::GetEphemerals { prefix: path(gene[2]) }),
    (3, |gene, _| Op::GetAllChildrenNumber { path: path(gene[2]) }),
    (2, |_, _| Op::WhoAmI),
    (2, |_, _| Op::Ping),
    (4, |_, _| Op::CloseSession),
    (1, |_, _| Op::Reconfig),
    (1, |gene, _| Op::Unknown(pick(&[999, -1, 10, 0, 23], gene[2]))),
    (2, |gene, rest| {
        let gene = rest.next().unwrap_or(*gene);
        Op::Cut { op: Box::new(pick(WITHIN_MULTI, gene[0])(&gene)), by: 1 + usize::from(gene[7] % 24) }
    }),
];

const WITHIN_MULTI: &[fn(&Gene) -> Op] = &[
    |gene| create(1, *gene),
    |gene| Op::Delete { path: path(gene[2]), version: pick(VERSIONS, gene[3]) },
    |gene| Op::SetData { path: path(gene[2]), version: pick(VERSIONS, gene[3]), data: pick(DATA, gene[5]) },
    |gene| Op::Check { path: path(gene[2]), version: pick(VERSIONS, gene[3]) },
    |gene| create(15, *gene),
    |gene| create(1, *gene),
    |gene| Op::Delete { path: path(gene[2]), version: -1 },
    |gene| create(19, *gene),
    |gene| create(21, *gene),
];

fn create(by: i32, gene: Gene) -> Op {
    let flags = match by {
        // Other modes are refused, so they are chosen rarely.
        19 => pick(&[4, 4, 4, 4, 4, 4, 4, 4, 0, 1, 2, 5], gene[3]),
        21 => pick(TTL_FLAGS, gene[3]),
        _ => pick(FLAGS, gene[3]),
    };
    let (acl, ttl) = (acl(gene[4]), pick(TTLS, gene[6]));
    Op::Create { by, path: path(gene[2]), data: pick(DATA, gene[5]), acl, flags, ttl }
}

/// Returns up to three paths.
fn paths(byte: u8) -> Vec<Path> {
    (0..byte % 4).map(|i| path((byte >> 2).wrapping_add(i * 5))).collect()
}

/// Returns the steps for a list of genes.
pub(crate) fn steps(genes: &[Gene]) -> Vec<Step> {
    let mut genes = genes.iter().copied();
    let mut steps = Vec::new();
    let mut bound = None;
    while let Some(gene) = genes.next() {
        let session = bound.take().unwrap_or(usize::from(gene[1]) % SESSIONS);
        steps.push(match gene[0] {
            250.. => match gene[2] % 16 {
                0 | 8 => Step::LetExpire { session },
                1 => Step::FromTheFuture { session },
                2..6 => Step::Abandon { session },
                _ => Step::Resume { session, right: gene[3] % 8 != 7, knows_read_only: gene[4] % 2 == 0 },
            },
            byte => {
                let total: usize = OPS.iter().map(|(weight, _)| weight).sum();
                let mut left = usize::from(byte) * total / 250;
                let (_, make) = OPS
                    .iter()
                    .find(|(weight, _)| match left.checked_sub(*weight) {
                        Some(less) => {
                            left = less;
                            false
                        }
                        None => true,
                    })
                    .expect("less than the total");
                let op = make(&gene, &mut genes);
                let wait = gene[1] < 192 || !op.can_be_followed();
                bound = (!wait).then_some(session);
                Step::Say { session, op, wait }
            }
        });
    }
    steps
}
