//! Access control lists (ACLs) for the nodes that a client creates.

use zookeeper_client as zk;

use crate::config::size_limits;
use crate::error::{Error, Result};

/// The access control list of the nodes and lock directories that a client creates.
///
/// The parents of lock directories have a separate list: see
/// [`ClientOptions::parent_acl`](crate::ClientOptions::parent_acl).
///
/// Every contender of a lock needs permission to read, create and delete in the lock directory, and
/// permission to read the nodes of the other contenders.
///
/// ```
/// use zklock::{Acl, ClientOptions};
///
/// # fn main() -> zklock::Result<()> {
/// let options = ClientOptions::new(Some("127.0.0.1:2181"))?
///     .auth("digest", "app:secret")?
///     .acl(Acl::Creator);
/// # drop(options);
/// assert_eq!(Acl::parse("creator")?, Acl::Creator);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Acl {
    /// Every client has all permissions.
    #[default]
    Open,
    /// All clients with the same credentials as this client have all permissions. Other clients
    /// have none.
    Creator,
    /// These rules, in the form of a ZooKeeper ACL.
    Rules(Vec<Rule>),
}

/// One rule of an access control list.
///
/// ```
/// use zklock::Acl;
///
/// # fn main() -> zklock::Result<()> {
/// match Acl::parse("ip:10.0.0.0/8:cdrw,world:anyone:r")? {
///     Acl::Rules(rules) => assert_eq!(rules.len(), 2),
///     acl => unreachable!("{acl:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    scheme: String,
    id: String,
    /// One or more of the letters `cdrwa`.
    permissions: String,
}

impl Acl {
    /// Parses `open`, `creator`, or a list of rules.
    ///
    /// Rules have the syntax of ZooKeeper's own command line: `scheme:id:permissions`, separated by
    /// commas. The permissions are the letters `c`reate, `d`elete, `r`ead, `w`rite and `a`dmin.
    /// Example: `digest:app:<hash>:cdrwa,world:anyone:r`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for any other text, and for text longer than
    /// 64 KiB.
    pub fn parse(text: &str) -> Result<Self> {
        size_limits::check("acl", text.len(), size_limits::ACL)?;
        match text {
            "open" => Ok(Self::Open),
            "creator" => Ok(Self::Creator),
            rules => Ok(Self::Rules(rules.split(',').map(Rule::parse).collect::<Result<_>>()?)),
        }
    }

    /// Converts this list to the type of the client crate.
    pub(crate) fn to_list(&self) -> Vec<zk::Acl> {
        match self {
            Self::Open => vec![zk::Acl::new(zk::Permission::ALL, zk::AuthId::anyone())],
            Self::Creator => vec![zk::Acl::new(zk::Permission::ALL, zk::AuthId::authed())],
            Self::Rules(rules) => rules.iter().map(Rule::to_acl).collect(),
        }
    }

    /// Returns the default list for the parents of lock directories: this list, and a rule with
    /// which every client can read the parents and create nodes in them.
    pub(crate) fn to_parents_list(&self) -> Vec<zk::Acl> {
        let mut list = self.to_list();
        if *self != Self::Open {
            list.push(zk::Acl::new(zk::Permission::CREATE | zk::Permission::READ, zk::AuthId::anyone()));
        }
        list
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self> {
        let bad = |problem: &str| Error::bad_argument("acl", format_args!("{problem}: {text:?}"));
        let parts =
            text.trim().split_once(':').and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
        let Some((scheme, (id, permissions))) = parts else {
            return Err(bad("must be \"open\", \"creator\", or rules of the form scheme:id:permissions"));
        };
        if scheme.is_empty() {
            return Err(bad("a rule needs a scheme"));
        }
        if permissions.is_empty() || permissions.chars().any(|letter| permission(letter).is_none()) {
            return Err(bad("permissions must be letters out of \"cdrwa\""));
        }
        Ok(Self { scheme: scheme.to_owned(), id: id.to_owned(), permissions: permissions.to_owned() })
    }

    fn to_acl(&self) -> zk::Acl {
        let permissions = self.permissions.chars().filter_map(permission);
        let permissions = permissions.fold(zk::Permission::NONE, |all, one| all | one);
        zk::Acl::new(permissions, zk::AuthId::new(&self.scheme, &self.id))
    }
}

fn permission(letter: char) -> Option<zk::Permission> {
    Some(match letter {
        'c' => zk::Permission::CREATE,
        'd' => zk::Permission::DELETE,
        'r' => zk::Permission::READ,
        'w' => zk::Permission::WRITE,
        'a' => zk::Permission::ADMIN,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_zookeepers_command_line() {
        let acl = Acl::parse("digest:app:k3K4=:cdrwa, world:anyone:r").unwrap();
        let expected = [
            zk::Acl::new(zk::Permission::ALL, zk::AuthId::new("digest", "app:k3K4=")),
            zk::Acl::new(zk::Permission::READ, zk::AuthId::anyone()),
        ];
        assert_eq!(acl.to_list(), expected);
        assert_eq!(Acl::parse("open").unwrap(), Acl::Open);
        assert_eq!(Acl::parse("creator").unwrap(), Acl::Creator);
    }

    #[test]
    fn others_may_create_beside_us_but_not_take_our_place() {
        let everyone = zk::Acl::new(zk::Permission::READ | zk::Permission::CREATE, zk::AuthId::anyone());
        let us = zk::Acl::new(zk::Permission::ALL, zk::AuthId::authed());
        assert_eq!(Acl::Creator.to_parents_list(), [us, everyone.clone()]);
        assert_eq!(Acl::Open.to_parents_list(), Acl::Open.to_list());
        let rules = Acl::parse("sasl:app:cdrwa").unwrap();
        assert_eq!(rules.to_parents_list(), [rules.to_list(), vec![everyone]].concat());
    }

    #[test]
    fn other_text_is_refused_by_name() {
        for text in
            ["", "all", "world:anyone", "world:anyone:", "world:anyone:x", ":anyone:r", "world:anyone:r,"]
        {
            let error = Acl::parse(text).unwrap_err();
            assert_eq!(error.code(), "BAD_ARGUMENT", "{text:?}");
            assert!(error.to_string().starts_with("acl: "), "{error}");
        }
    }
}
