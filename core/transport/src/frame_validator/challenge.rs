//! Validation of a server's DIGEST-MD5 challenge: directives such as `realm="zk"`, separated by
//! commas.
//!
//! Escapes are refused, because the client crate's parser loops forever on two escapes in one
//! value, and panics on an escaped non-ASCII character. The parser does not decode escapes, so a
//! login with an escape would fail in any case.

use super::malformed::Malformed;

/// Longest challenge in bytes, as in RFC 2831.
const LONGEST: usize = 2048;

pub(super) fn check(challenge: &[u8]) -> Result<(), Malformed> {
    if challenge.len() > LONGEST {
        return Err(Malformed::new(format!("a SASL challenge of {} bytes", challenge.len())));
    }
    let text = std::str::from_utf8(challenge).map_err(|_| refused("is not UTF-8"))?;
    if text.contains(|c: char| c.is_control() && !is_blank(c)) {
        return Err(refused("has control characters"));
    }
    let mut rest = text.trim_start_matches(is_blank);
    if rest.is_empty() {
        return Err(refused("is empty"));
    }
    while !rest.is_empty() {
        rest = directive(rest)?;
    }
    Ok(())
}

/// Parses one directive and returns the text after it and its comma.
fn directive(text: &str) -> Result<&str, Malformed> {
    let (key, value) = text.split_once('=').ok_or_else(|| refused("has a directive without a value"))?;
    if key.is_empty() || !key.chars().all(is_of_token) {
        return Err(refused("has a directive without a name"));
    }
    let rest = if let Some(quoted) = value.strip_prefix('"') {
        let (value, rest) = quoted.split_once('"').ok_or_else(|| refused("has an unterminated quote"))?;
        if value.contains('\\') {
            return Err(refused("has an escape"));
        }
        rest
    } else {
        let end = value.find(|c| !is_of_token(c)).unwrap_or(value.len());
        if end == 0 {
            return Err(refused("has an empty value"));
        }
        &value[end..]
    };
    let rest = rest.trim_start_matches(is_blank);
    match rest.strip_prefix(',') {
        Some(rest) => Ok(rest.trim_start_matches(is_blank)),
        None if rest.is_empty() => Ok(rest),
        None => Err(refused("has text after a value")),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_of_token(c: char) -> bool {
    c.is_ascii_graphic() && !r#"()<>@,;:\"/[]?={}"#.contains(c)
}

fn refused(why: &str) -> Malformed {
    Malformed::new(format!("a SASL challenge that {why}"))
}
