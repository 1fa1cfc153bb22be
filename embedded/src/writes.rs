//! Requests that change nodes: checks them, applies them to the tree, and creates the replies.

use crate::access::{self, Identity};
use crate::code::Code;
use crate::node::{Lifetime, MAX_TTL, Node};
use crate::path;
use crate::replies::{Body, Part};
use crate::requests::{By, Create, Write};
use crate::tree::{Change, TransactionTime, Tree};

/// The client that sends the request.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) session: i64,
    pub(crate) identities: &'a [Identity],
    pub(crate) ttl_nodes: bool,
    /// Containers that this transaction creates with the flags of an ephemeral node. Apache
    /// ZooKeeper treats them as ephemeral until it applies the transaction.
    pub(crate) claimed: &'a [String],
}

impl Caller<'_> {
    fn sees_ephemeral(&self, path: &str, owner: i64) -> bool {
        matches!(Lifetime::of(owner), Lifetime::Ephemeral(_)) || self.claimed.iter().any(|one| one == path)
    }
}

/// The change, if there is one, and the reply.
type Done = (Option<Change>, Body);

/// Executes a request, or refuses it without a change.
pub(crate) fn apply(tree: &mut Tree, write: Write, who: Caller, at: TransactionTime) -> Result<Done, Code> {
    match write {
        Write::Create(request) => create(tree, request, who, at),
        Write::Delete { path, version } => {
            let parent = parent_of_deletable(&path)?;
            access::check(&node(tree, parent)?.acl, access::DELETE, who.identities)?;
            let found = node(tree, &path)?;
            next_version(found.kept.version, version)?;
            delete(tree, &path, at)
        }
        Write::DeleteContainer { path } => {
            parent_of_deletable(&path)?;
            let found = node(tree, &path)?;
            if found.children.is_empty() && who.sees_ephemeral(&path, found.kept.owner) {
                return Err(Code::BadVersion);
            }
            delete(tree, &path, at)
        }
        Write::SetData { path, data, version } => {
            let found = valid(tree, &path)?;
            access::check(&found.acl, access::WRITE, who.identities)?;
            let version = next_version(found.kept.version, version)?;
            let change = tree.set_data(&path, data, version, at).ok_or(Code::NoNode)?;
            Ok((Some(change), Body::Stat(node(tree, &path)?.stat())))
        }
        Write::SetAcl { path, acl, version } => {
            if !path::is_valid(&path) {
                return Err(Code::BadArguments);
            }
            let acl = access::resolve(&acl, who.identities)?;
            let found = node(tree, &path)?;
            access::check(&found.acl, access::ADMIN, who.identities)?;
            let version = next_version(found.kept.aversion, version)?;
            let change = tree.set_acl(&path, acl, version).ok_or(Code::NoNode)?;
            Ok((Some(change), Body::Stat(node(tree, &path)?.stat())))
        }
        Write::Check { path, version } => {
            let found = valid(tree, &path)?;
            access::check(&found.acl, access::READ, who.identities)?;
            next_version(found.kept.version, version)?;
            Ok((None, Body::Nothing))
        }
    }
}

/// Executes a transaction completely or not at all. Returns the changes, and each operation's part
/// of the reply.
pub(crate) fn apply_all(
    tree: &mut Tree,
    writes: Vec<Write>,
    who: Caller,
    at: TransactionTime,
) -> (Vec<Change>, Vec<Part>) {
    let count = writes.len();
    let mut changes = Vec::new();
    let mut parts = Vec::new();
    let mut claimed = Vec::new();
    for (i, write) in writes.into_iter().enumerate() {
        let number = part_number(&write);
        let claims = matches!(&write, Write::Create(Create { by: By::CreateContainer, flags: 1 | 3, .. }));
        match apply(tree, write, Caller { claimed: &claimed, ..who }, at) {
            Ok((change, body)) => {
                if let (true, Body::PathStat(path, _)) = (claims, &body) {
                    claimed.push(path.clone());
                }
                changes.extend(change);
                parts.push(Part::Done(number, body));
            }
            Err(code) => {
                for change in changes.into_iter().rev() {
                    tree.undo(change);
                }
                // The whole transaction has failed, so the reply also marks the earlier operations
                // as failed, but with code 0. Later operations were not tried.
                let mut failed = vec![Part::Failed(crate::code::OK); i];
                failed.push(Part::Failed(code.number()));
                failed.resize(count, Part::Failed(Code::RuntimeInconsistency.number()));
                return (Vec::new(), failed);
            }
        }
    }
    (changes, parts)
}

/// Returns the operation number that the reply contains for a write. If the reply to a create
/// contains a Stat, this is the number of `create2`.
fn part_number(write: &Write) -> i32 {
    match write {
        Write::Create(Create { by: By::Create, .. }) => 1,
        Write::Create(_) => 15,
        Write::Delete { .. } | Write::DeleteContainer { .. } => 2,
        Write::SetData { .. } => 5,
        Write::SetAcl { .. } => 7,
        Write::Check { .. } => 13,
    }
}

fn create(tree: &mut Tree, request: Create, who: Caller, at: TransactionTime) -> Result<Done, Code> {
    let Create { by, mut path, data, acl, flags, ttl } = request;
    let (sequential, is_ttl) = (matches!(flags, 2 | 3 | 6), matches!(flags, 5 | 6));
    let lifetime = match by {
        _ if !(0..=6).contains(&flags) => return Err(Code::BadArguments),
        _ if is_ttl && !who.ttl_nodes => return Err(Code::Unimplemented),
        _ if is_ttl && !(1..=MAX_TTL).contains(&ttl) => return Err(Code::BadArguments),
        By::CreateTtl if !is_ttl && ttl >= 0 => return Err(Code::BadArguments),
        By::CreateTtl => Lifetime::Ttl(ttl),
        By::CreateContainer => Lifetime::Container,
        By::Create | By::Create2 if matches!(flags, 1 | 3) => Lifetime::Ephemeral(who.session),
        By::Create | By::Create2 => Lifetime::Persistent,
    };
    let above = path::parent(&path).filter(|_| !path.contains('\0')).ok_or(Code::BadArguments)?.to_owned();
    let acl = access::resolve(&acl, who.identities)?;
    let parent = node(tree, &above)?;
    access::check(&parent.acl, access::CREATE, who.identities)?;
    let (creates, parent_owner) = (parent.kept.creates, parent.kept.owner);
    if sequential {
        path = format!("{path}{creates:010}");
    }
    if !path::is_valid(&path) {
        return Err(Code::BadArguments);
    }
    if tree.get(&path).is_some() {
        return Err(Code::NodeExists);
    }
    if who.sees_ephemeral(&above, parent_owner) {
        return Err(Code::NoChildrenForEphemerals);
    }
    if by == By::CreateTtl && !is_ttl {
        return Err(Code::BadArguments);
    }
    let change = tree.create(&path, data, acl, lifetime, at).ok_or(Code::NodeExists)?;
    let stat = node(tree, &path)?.stat();
    let body = if by == By::Create { Body::Path(path) } else { Body::PathStat(path, stat) };
    Ok((Some(change), body))
}

fn delete(tree: &mut Tree, path: &str, at: TransactionTime) -> Result<Done, Code> {
    let change = tree.delete(path, at.zxid).ok_or(Code::NotEmpty)?;
    Ok((Some(change), Body::Nothing))
}

fn parent_of_deletable(path: &str) -> Result<&str, Code> {
    path::parent(path).filter(|_| !path.contains('\0') && !Tree::is_own(path)).ok_or(Code::BadArguments)
}

fn node<'a>(tree: &'a Tree, path: &str) -> Result<&'a Node, Code> {
    tree.get(path).ok_or(Code::NoNode)
}

fn valid<'a>(tree: &'a Tree, path: &str) -> Result<&'a Node, Code> {
    if path::is_valid(path) { node(tree, path) } else { Err(Code::BadArguments) }
}

/// Returns the next version. It skips -1, because -1 in a request means any version.
fn next_version(current: i32, expected: i32) -> Result<i32, Code> {
    if expected != -1 && expected != current {
        return Err(Code::BadVersion);
    }
    Ok(match current.wrapping_add(1) {
        -1 => 0,
        next => next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Rule;

    const AT: TransactionTime = TransactionTime { zxid: 5, time: 1000 };
    const WHO: Caller = Caller { session: 77, identities: &[], ttl_nodes: true, claimed: &[] };

    fn request(path: &str, by: By, flags: i32) -> Create {
        let acl = vec![Rule { perms: access::ALL, who: Identity::new("world", "anyone") }];
        Create { by, path: path.to_owned(), data: None, acl, flags, ttl: -1 }
    }

    fn make(tree: &mut Tree, path: &str, flags: i32) -> Result<Body, Code> {
        apply(tree, Write::Create(request(path, By::Create, flags)), WHO, AT).map(|(_, body)| body)
    }

    fn remove(path: &str, version: i32) -> Write {
        Write::Delete { path: path.to_owned(), version }
    }

    #[test]
    fn numbers_count_all_creations_in_the_parent() {
        let mut tree = Tree::new();
        make(&mut tree, "/q", 0).unwrap();
        assert_eq!(make(&mut tree, "/q/a-", 2), Ok(Body::Path("/q/a-0000000000".to_owned())));
        make(&mut tree, "/q/plain", 0).unwrap();
        apply(&mut tree, remove("/q/plain", -1), WHO, AT).unwrap();
        assert_eq!(make(&mut tree, "/q/b-", 3), Ok(Body::Path("/q/b-0000000002".to_owned())));
    }

    #[test]
    fn a_container_with_an_ephemerals_flags_has_no_children_in_its_own_transaction() {
        let mut tree = Tree::new();
        let container = || Write::Create(request("/c", By::CreateContainer, 1));
        let child = || Write::Create(request("/c/x", By::Create, 0));
        let (_, parts) = apply_all(&mut tree, vec![container(), child()], WHO, AT);
        assert_eq!(parts[1], Part::Failed(Code::NoChildrenForEphemerals.number()));
        assert!(tree.get("/c").is_none());
        assert!(matches!(apply_all(&mut tree, vec![container()], WHO, AT).1[..], [Part::Done(..)]));
        assert!(matches!(apply_all(&mut tree, vec![child()], WHO, AT).1[..], [Part::Done(..)]));
    }

    #[test]
    fn creations_are_refused_for_the_first_reason() {
        let mut tree = Tree::new();
        make(&mut tree, "/e", 1).unwrap();
        for (path, flags, code) in [
            ("/a", 7, Code::BadArguments),
            ("a", 0, Code::BadArguments),
            ("/a//b", 0, Code::NoNode),
            ("/a/b", 0, Code::NoNode),
            ("/a/", 0, Code::NoNode),
            ("//", 0, Code::BadArguments),
            ("/", 0, Code::NodeExists),
            ("/e", 0, Code::NodeExists),
            ("/e/x", 0, Code::NoChildrenForEphemerals),
        ] {
            assert_eq!(make(&mut tree, path, flags), Err(code), "{path}");
        }
    }

    #[test]
    fn ttl_nodes_need_a_ttl_and_the_setting() {
        let mut tree = Tree::new();
        let ask = |ttl, flags| Write::Create(Create { ttl, ..request("/t", By::CreateTtl, flags) });
        for (ttl, flags) in [(0, 5), (-1, 5), (MAX_TTL + 1, 5), (10, 0)] {
            assert_eq!(apply(&mut tree, ask(ttl, flags), WHO, AT).unwrap_err(), Code::BadArguments);
        }
        let without = Caller { ttl_nodes: false, ..WHO };
        assert_eq!(apply(&mut tree, ask(10, 5), without, AT).unwrap_err(), Code::Unimplemented);
        apply(&mut tree, ask(10, 5), WHO, AT).unwrap();
        assert_eq!(Lifetime::of(tree.get("/t").unwrap().kept.owner), Lifetime::Ttl(10));
    }

    #[test]
    fn deletions_look_at_version_and_children() {
        let mut tree = Tree::new();
        make(&mut tree, "/a", 0).unwrap();
        make(&mut tree, "/a/b", 0).unwrap();
        for (path, version, code) in [
            ("/a", 3, Code::BadVersion),
            ("/a", 0, Code::NotEmpty),
            ("/x", -1, Code::NoNode),
            ("/", -1, Code::BadArguments),
            ("/zookeeper/quota", -1, Code::BadArguments),
        ] {
            assert_eq!(apply(&mut tree, remove(path, version), WHO, AT).unwrap_err(), code, "{path}");
        }
    }

    #[test]
    fn a_transaction_that_fails_changes_nothing() {
        let mut tree = Tree::new();
        make(&mut tree, "/a", 0).unwrap();
        let before = format!("{tree:?}");
        let writes = vec![
            Write::Create(request("/a/b", By::Create, 3)),
            remove("/a/b0000000000", -1),
            remove("/nowhere", -1),
            Write::Check { path: "/a".to_owned(), version: 0 },
        ];
        let (changes, parts) = apply_all(&mut tree, writes, WHO, AT);
        assert!(changes.is_empty());
        assert_eq!(parts, [Part::Failed(0), Part::Failed(0), Part::Failed(-101), Part::Failed(-2)]);
        assert_eq!(format!("{tree:?}"), before);
    }

    #[test]
    fn lists_are_enforced() {
        let mut tree = Tree::new();
        let ann = [Identity::new("digest", "ann:hash")];
        let rules = vec![Rule { perms: access::READ | access::ADMIN, who: ann[0].clone() }];
        let as_ann = Caller { identities: &ann, ..WHO };
        apply(&mut tree, Write::Create(Create { acl: rules, ..request("/a", By::Create, 0) }), WHO, AT)
            .unwrap();
        let set = || Write::SetData { path: "/a".to_owned(), data: None, version: -1 };
        assert_eq!(apply(&mut tree, set(), as_ann, AT).unwrap_err(), Code::NoAuth);
        assert_eq!(make(&mut tree, "/a/b", 0), Err(Code::NoAuth));
        let open = request("/a", By::Create, 0).acl;
        let acl = |version| Write::SetAcl { path: "/a".to_owned(), acl: open.clone(), version };
        assert_eq!(apply(&mut tree, acl(0), WHO, AT).unwrap_err(), Code::NoAuth);
        assert_eq!(apply(&mut tree, acl(1), as_ann, AT).unwrap_err(), Code::BadVersion);
        apply(&mut tree, acl(0), as_ann, AT).unwrap();
        apply(&mut tree, set(), WHO, AT).unwrap();
    }

    #[test]
    fn a_check_looks_for_the_node_then_at_the_rights_then_at_the_version() {
        let mut tree = Tree::new();
        let nobody = vec![Rule { perms: access::WRITE, who: Identity::new("world", "anyone") }];
        apply(&mut tree, Write::Create(Create { acl: nobody, ..request("/a", By::Create, 1) }), WHO, AT)
            .unwrap();
        let check = |path: &str, version| Write::Check { path: path.to_owned(), version };
        let failed = |tree: &mut Tree, writes| apply_all(tree, writes, WHO, AT).1;
        let [no_node, no_auth, not_tried] = [-101, -102, -2].map(Part::Failed);
        assert_eq!(failed(&mut tree, vec![check("/b", 7), check("/a", 7)]), [no_node, not_tried.clone()]);
        assert_eq!(failed(&mut tree, vec![check("/a", 7), check("/b", 7)]), [no_auth, not_tried]);
    }

    #[test]
    fn no_version_means_any() {
        assert_eq!(next_version(-2, -2), Ok(0));
        assert_eq!(next_version(i32::MAX, -1), Ok(i32::MIN));
    }
}
