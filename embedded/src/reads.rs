//! Read requests, and the watches that they set.

use crate::access::{self, Identity};
use crate::code::Code;
use crate::connections::ConnectionId;
use crate::node::Node;
use crate::replies::{Body, Part};
use crate::requests::{Read, SetWatches};
use crate::tree::Tree;
use crate::watches::{Event, Mode, Watches};

/// The client that reads.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) connection: ConnectionId,
    pub(crate) session: i64,
    pub(crate) identities: &'a [Identity],
}

/// Executes a read request and returns the reply.
pub(crate) fn answer(tree: &Tree, watches: &mut Watches, read: Read, who: Reader) -> Result<Body, Code> {
    match read {
        Read::Exists { path, watch } => {
            if path.contains('\0') {
                return Err(Code::BadArguments);
            }
            let found = readable(tree, &path, who);
            if watch && found.as_ref().err() != Some(&Code::NoAuth) {
                watches.add_data(&path, who.connection);
            }
            Ok(Body::Stat(found?.stat()))
        }
        Read::GetData { path, watch } => {
            let found = readable(tree, &path, who)?;
            if watch {
                watches.add_data(&path, who.connection);
            }
            Ok(Body::DataStat(found.data.clone(), found.stat()))
        }
        Read::GetChildren { path, watch } => {
            Ok(Body::Names(children(tree, watches, &path, watch, who)?.children.iter().cloned().collect()))
        }
        Read::GetChildren2 { path, watch } => {
            let found = children(tree, watches, &path, watch, who)?;
            Ok(Body::NamesStat(found.children.iter().cloned().collect(), found.stat()))
        }
        Read::GetAcl { path } => {
            let found = tree.get(&path).ok_or(Code::NoNode)?;
            access::check(&found.acl, access::READ | access::ADMIN, who.identities)?;
            let acl = match access::check(&found.acl, access::ADMIN, who.identities) {
                Ok(()) => found.acl.clone(),
                Err(_) => access::masked(&found.acl),
            };
            Ok(Body::AclStat(acl, found.stat()))
        }
        Read::CountDescendants { path } => {
            readable(tree, &path, who)?;
            Ok(Body::Number(i32::try_from(tree.descendants(&path)).unwrap_or(i32::MAX)))
        }
        Read::GetEphemerals { prefix } => {
            let prefix = if matches!(prefix.trim(), "" | "/") { "" } else { &prefix };
            Ok(Body::Names(tree.ephemerals_below(who.session, prefix)))
        }
        Read::WhoAmI => Ok(Body::Identities(who.identities.to_vec())),
    }
}

/// Executes several reads. Each read has its own result.
pub(crate) fn answer_all(tree: &Tree, watches: &mut Watches, reads: Vec<Read>, who: Reader) -> Vec<Part> {
    let one = |read| {
        let number = if matches!(read, Read::GetData { .. }) { 4 } else { 8 };
        match answer(tree, watches, read, who) {
            Ok(body) => Part::Done(number, body),
            Err(code) => Part::Failed(code.number()),
        }
    };
    reads.into_iter().map(one).collect()
}

/// Sets a reconnected client's watches again. If a watched node has changed in the meantime, the
/// client gets the event immediately and no new watch.
pub(crate) fn set_watches(
    tree: &Tree,
    watches: &mut Watches,
    set: &SetWatches,
    connection: ConnectionId,
) -> Vec<(Event, String)> {
    let mut missed = Vec::new();
    for path in &set.data {
        match tree.get(path) {
            None => missed.push((Event::Deleted, path.clone())),
            Some(node) if node.kept.mzxid > set.seen => missed.push((Event::DataChanged, path.clone())),
            Some(_) => watches.add_data(path, connection),
        }
    }
    for path in &set.exist {
        match tree.get(path) {
            Some(_) => missed.push((Event::Created, path.clone())),
            None => watches.add_data(path, connection),
        }
    }
    for path in &set.children {
        match tree.get(path) {
            None => missed.push((Event::Deleted, path.clone())),
            Some(node) if node.kept.pzxid > set.seen => missed.push((Event::ChildrenChanged, path.clone())),
            Some(_) => watches.add_children(path, connection),
        }
    }
    for path in &set.persistent {
        watches.add_lasting(path, connection, Mode::Persistent);
    }
    for path in &set.recursive {
        watches.add_lasting(path, connection, Mode::Recursive);
    }
    missed
}

fn readable<'a>(tree: &'a Tree, path: &str, who: Reader) -> Result<&'a Node, Code> {
    let node = tree.get(path).ok_or(Code::NoNode)?;
    access::check(&node.acl, access::READ, who.identities)?;
    Ok(node)
}

fn children<'a>(
    tree: &'a Tree,
    watches: &mut Watches,
    path: &str,
    watch: bool,
    who: Reader,
) -> Result<&'a Node, Code> {
    let node = readable(tree, path, who)?;
    if watch {
        watches.add_children(path, who.connection);
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Rule;
    use crate::node::Lifetime;
    use crate::tree::TransactionTime;

    const A: ConnectionId = ConnectionId(1);

    fn reader(identities: &[Identity]) -> Reader<'_> {
        Reader { connection: A, session: 77, identities }
    }

    fn tree() -> Tree {
        let mut tree = Tree::new();
        let ann = Rule { perms: access::READ, who: Identity::new("digest", "ann:hash") };
        let at = TransactionTime { zxid: 5, time: 1000 };
        tree.create("/ann", None, [ann].into(), Lifetime::Persistent, at).unwrap();
        tree.create("/e", None, access::open(access::ALL), Lifetime::Ephemeral(77), at).unwrap();
        tree
    }

    #[test]
    fn a_missing_node_can_be_watched_for_and_a_forbidden_one_cannot() {
        let (tree, mut watches) = (tree(), Watches::default());
        for (path, code, count) in [("/none", Code::NoNode, 1), ("/ann", Code::NoAuth, 1)] {
            let ask = Read::Exists { path: path.to_owned(), watch: true };
            assert_eq!(answer(&tree, &mut watches, ask, reader(&[])), Err(code));
            assert_eq!(watches.len(), count);
        }
        let ask = Read::GetData { path: "/none".to_owned(), watch: true };
        assert_eq!(answer(&tree, &mut watches, ask, reader(&[])), Err(Code::NoNode));
        assert_eq!(watches.len(), 1);
    }

    #[test]
    fn who_may_not_administer_sees_no_digest() {
        let (tree, mut watches) = (tree(), Watches::default());
        let ann = [Identity::new("digest", "ann:hash")];
        let ask = Read::GetAcl { path: "/ann".to_owned() };
        let Ok(Body::AclStat(acl, _)) = answer(&tree, &mut watches, ask, reader(&ann)) else {
            panic!("no list")
        };
        assert_eq!(acl[0].who.id, "ann:x");
    }

    #[test]
    fn ephemerals_are_the_sessions_own() {
        let (tree, mut watches) = (tree(), Watches::default());
        let mut ask = |prefix: &str, session| {
            let read = Read::GetEphemerals { prefix: prefix.to_owned() };
            answer(&tree, &mut watches, read, Reader { session, ..reader(&[]) })
        };
        assert_eq!(ask("/", 77), Ok(Body::Names(vec!["/e".to_owned()])));
        assert_eq!(ask("/x", 77), Ok(Body::Names(vec![])));
        assert_eq!(ask("", 78), Ok(Body::Names(vec![])));
    }

    #[test]
    fn what_was_missed_is_told_in_place_of_the_watch() {
        let (tree, mut watches) = (tree(), Watches::default());
        let path = |path: &str| vec![path.to_owned()];
        let set = SetWatches {
            seen: 4,
            data: path("/e"),
            exist: path("/e"),
            children: path("/gone"),
            ..SetWatches::default()
        };
        let missed = set_watches(&tree, &mut watches, &set, A);
        let expected = [(Event::DataChanged, "/e"), (Event::Created, "/e"), (Event::Deleted, "/gone")];
        assert_eq!(missed, expected.map(|(event, path)| (event, path.to_owned())));
        assert_eq!(watches.len(), 0);
        assert!(set_watches(&tree, &mut watches, &SetWatches { seen: 5, ..set }, A).len() == 2);
        assert_eq!(watches.len(), 1);
    }
}
