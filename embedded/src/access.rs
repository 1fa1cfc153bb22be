//! Access control lists of the schemes `world`, `digest`, `ip` and `auth`.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use zklock_jute::{Reader, Writer};

use crate::code::Code;
use crate::records::{BadRecord, Fields};

pub(crate) const READ: i32 = 1;
pub(crate) const WRITE: i32 = 2;
pub(crate) const CREATE: i32 = 4;
pub(crate) const DELETE: i32 = 8;
pub(crate) const ADMIN: i32 = 16;
pub(crate) const ALL: i32 = 31;

/// Maximum number of entries in a node's ACL. A frame cannot contain that many entries, but the
/// server replaces each `auth` entry with all identities of the client. A client can have any
/// number of identities.
const LONGEST: usize = 100_000;

/// An identity in one ACL scheme.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) scheme: String,
    pub(crate) id: String,
}

impl Identity {
    pub(crate) fn new(scheme: &str, id: impl Into<String>) -> Self {
        Identity { scheme: scheme.to_owned(), id: id.into() }
    }

    /// Returns the user's name, as `whoAmI` reports it.
    pub(crate) fn user(&self) -> &str {
        if self.scheme == "digest" { self.id.split(':').next().unwrap_or_default() } else { &self.id }
    }

    fn is_anyone(&self) -> bool {
        self.scheme == "world" && self.id == "anyone"
    }

    /// Returns `true` if an ACL entry for this identity applies to a client with the identity
    /// `who`.
    fn means(&self, who: &Identity) -> bool {
        self.scheme == who.scheme
            && match self.scheme.as_str() {
                "ip" => network(&self.id).is_some_and(|network| within(network, &who.id)),
                _ => self.id == who.id,
            }
    }
}

/// An entry of an ACL: the permissions of one identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub(crate) perms: i32,
    pub(crate) who: Identity,
}

/// A node's ACL. Nodes that get the same ACL from one request share it.
pub(crate) type Acl = Arc<[Rule]>;

pub(crate) fn open(perms: i32) -> Acl {
    [Rule { perms, who: Identity::new("world", "anyone") }].into()
}

impl Rule {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, BadRecord> {
        Ok(Rule {
            perms: reader.int()?,
            who: Identity { scheme: reader.string()?, id: reader.nullable()?.unwrap_or_default() },
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.int(self.perms);
        writer.text(&self.who.scheme);
        writer.text(&self.who.id);
    }
}

/// Fails with `NoAuth` unless an entry grants one of the permissions `perms` to one of the client's
/// `identities`.
pub(crate) fn check(acl: &[Rule], perms: i32, identities: &[Identity]) -> Result<(), Code> {
    let allowed = acl.iter().filter(|rule| rule.perms & perms != 0);
    for rule in allowed {
        if rule.who.is_anyone() || identities.iter().any(|who| rule.who.means(who)) {
            return Ok(());
        }
    }
    Err(Code::NoAuth)
}

/// Returns the ACL that a node gets when a client with `identities` asks for `rules`: without
/// duplicates, and with `auth` replaced by the client's identities.
pub(crate) fn resolve(rules: &[Rule], identities: &[Identity]) -> Result<Acl, Code> {
    let mut resolved = Vec::new();
    let mut seen = HashSet::new();
    for rule in rules.iter().filter(|rule| seen.insert(*rule)) {
        match rule.who.scheme.as_str() {
            "auth" => {
                let mut proven = identities.iter().filter(|who| who.scheme == "digest").peekable();
                proven.peek().ok_or(Code::InvalidAcl)?;
                if resolved.len() + identities.len() > LONGEST {
                    return Err(Code::InvalidAcl);
                }
                resolved.extend(proven.map(|who| Rule { perms: rule.perms, who: who.clone() }));
            }
            _ if rule.who.is_anyone() || is_valid(&rule.who) => resolved.push(rule.clone()),
            _ => return Err(Code::InvalidAcl),
        }
    }
    if resolved.is_empty() { Err(Code::InvalidAcl) } else { Ok(resolved.into()) }
}

/// Returns the ACL with password digests masked, for a client without the admin permission on the
/// node.
pub(crate) fn masked(acl: &[Rule]) -> Acl {
    acl.iter()
        .map(|rule| match rule.who.scheme.as_str() {
            "digest" => {
                Rule { perms: rule.perms, who: Identity::new("digest", format!("{}:x", rule.who.user())) }
            }
            _ => rule.clone(),
        })
        .collect()
}

fn is_valid(who: &Identity) -> bool {
    match who.scheme.as_str() {
        "digest" => who.id.split_once(':').is_some_and(|(_, hash)| !hash.is_empty() && !hash.contains(':')),
        "ip" => network(&who.id).is_some(),
        _ => false,
    }
}

/// Parses an IP address and its prefix length in bits.
fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let length = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(length), |bits| bits.parse().ok())?;
    (bits <= length).then_some((address, bits))
}

fn within((network, bits): (IpAddr, u32), who: &str) -> bool {
    let differ = match (network, who.parse()) {
        (IpAddr::V4(network), Ok(IpAddr::V4(who))) => {
            u128::from((network.to_bits() ^ who.to_bits()).leading_zeros())
        }
        (IpAddr::V6(network), Ok(IpAddr::V6(who))) => {
            u128::from((network.to_bits() ^ who.to_bits()).leading_zeros())
        }
        _ => return false,
    };
    differ >= u128::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(perms: i32, scheme: &str, id: &str) -> Rule {
        Rule { perms, who: Identity::new(scheme, id) }
    }

    #[test]
    fn a_permission_is_had_by_those_whom_an_entry_means() {
        let ann = [Identity::new("ip", "10.0.0.7"), Identity::new("digest", "ann:hash")];
        let acl = [
            rule(READ, "world", "anyone"),
            rule(WRITE, "digest", "ann:hash"),
            rule(CREATE, "ip", "10.0.0.0/24"),
        ];
        for perms in [READ, WRITE, CREATE, DELETE | READ] {
            assert_eq!(check(&acl, perms, &ann), Ok(()));
        }
        assert_eq!(check(&acl, DELETE, &ann), Err(Code::NoAuth));
        assert_eq!(check(&acl, WRITE, &[]), Err(Code::NoAuth));
        assert_eq!(check(&acl, CREATE, &[Identity::new("ip", "10.0.1.7")]), Err(Code::NoAuth));
    }

    #[test]
    fn auth_stands_for_who_asks() {
        let ann = [Identity::new("ip", "10.0.0.7"), Identity::new("digest", "ann:hash")];
        assert_eq!(*resolve(&[rule(ALL, "auth", "")], &ann).unwrap(), [rule(ALL, "digest", "ann:hash")]);
        assert_eq!(resolve(&[rule(ALL, "auth", "")], &ann[..1]), Err(Code::InvalidAcl));
    }

    #[test]
    fn lists_that_mean_nobody_are_refused() {
        for (scheme, id) in
            [("world", "someone"), ("digest", "ann"), ("digest", "a:b:c"), ("ip", "x"), ("foo", "bar")]
        {
            assert_eq!(resolve(&[rule(ALL, scheme, id)], &[]), Err(Code::InvalidAcl), "{scheme}:{id}");
        }
        assert_eq!(resolve(&[], &[]), Err(Code::InvalidAcl));
        let twice = [rule(ALL, "world", "anyone"), rule(ALL, "world", "anyone")];
        assert_eq!(resolve(&twice, &[]).unwrap().len(), 1);
    }

    /// A frame of 1 MiB can hold this many entries. Comparing each entry with every other entry
    /// would be too slow.
    #[test]
    fn a_list_may_be_long_but_stands_for_no_more_than_it_is() {
        let many: Vec<Rule> = (0..50_000).map(|perms| rule(perms, "auth", "")).collect();
        let ann = |count: usize| vec![Identity::new("digest", "ann:hash"); count];
        assert_eq!(resolve(&many, &ann(1)).unwrap().len(), 50_000);
        assert_eq!(resolve(&many, &ann(3)), Err(Code::InvalidAcl));
    }

    #[test]
    fn others_do_not_see_the_digests() {
        assert_eq!(*masked(&[rule(ALL, "digest", "ann:hash")]), [rule(ALL, "digest", "ann:x")]);
    }
}
