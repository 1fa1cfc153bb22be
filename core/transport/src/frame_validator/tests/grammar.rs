//! A second check for well-formed replies, independent of the validator: each reply is described by
//! a grammar.
//!
//! Symbols: `p` absolute path, `n` name of a child, `t` text, `b` buffer, `S` Stat, `m`
//! permissions, `i` number, `c` number of at least 0, `[…]` list of the elements inside,
//! `{1:…|2:…}` results of a transaction, `(…)` results of reads that were sent as one request.

/// Parses `bytes` by the grammar. Returns the remaining bytes, or `None` if they do not match.
fn read<'a>(grammar: &'a str, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let Some(symbol) = grammar.chars().next() else { return Some(bytes) };
    let mut behind = &grammar[1..];
    let rest = match symbol {
        'S' => bytes.get(68..)?,
        'i' => bytes.get(4..)?,
        'c' | 'm' => {
            let (value, rest) = int(bytes)?;
            (value >= 0 && (symbol == 'c' || value <= 31)).then_some(rest)?
        }
        'p' | 'n' | 't' | 'b' => {
            let (length, rest) = int(bytes)?;
            let length = if length == -1 { 0 } else { usize::try_from(length).ok()? };
            let value = rest.get(..length)?;
            let text = std::str::from_utf8(value);
            let ok = match symbol {
                'p' => text.ok()?.starts_with('/'),
                'n' => !text.ok()?.is_empty() && !text.ok()?.contains('/'),
                't' => text.is_ok(),
                _ => true,
            };
            ok.then_some(&rest[length..])?
        }
        '[' => {
            let (inside, after) = behind.split_once(']')?;
            behind = after;
            let (count, mut rest) = int(bytes)?;
            // Each element takes at least four bytes.
            (count >= -1 && count <= i32::try_from(rest.len() / 4).ok()?).then_some(())?;
            for _ in 0..count {
                rest = read(inside, rest)?;
            }
            rest
        }
        '{' | '(' => {
            let (inside, after) = behind.split_once(['}', ')'])?;
            behind = after;
            results(inside, symbol == '{', bytes)?
        }
        _ => unreachable!("{grammar}"),
    };
    read(behind, rest)
}

fn results<'a>(kinds: &'a str, all_or_none: bool, mut bytes: &'a [u8]) -> Option<&'a [u8]> {
    let mut errors = Vec::new();
    for kind in kinds.split('|') {
        let (number, grammar) = kind.split_once(':')?;
        let (found, rest) = int(bytes)?;
        (rest[..].first()? == &0).then_some(())?;
        let rest = rest.get(5..)?;
        bytes = if found == -1 {
            errors.push(int(rest)?.0);
            &rest[4..]
        } else if found == 1 && number == "15" {
            read("p", rest)?
        } else {
            (found == number.parse::<i32>().ok()?).then_some(())?;
            read(grammar, rest)?
        };
    }
    let failed = errors.len() == kinds.split('|').count() && errors.iter().any(|error| *error != 0);
    (!all_or_none || errors.is_empty() || failed).then_some(())?;
    (bytes.get(4)? == &1).then_some(())?;
    bytes.get(9..)
}

fn int(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (value, rest) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes(*value), rest))
}

/// Returns `true` if this frame is a reply to request `xid` whose body matches this grammar.
pub(super) fn accepts(frame: &[u8], xid: i32, grammar: &str) -> bool {
    let header = || {
        let (length, rest) = int(frame)?;
        (usize::try_from(length).ok()? == rest.len()).then_some(())?;
        let (found, rest) = int(rest)?;
        let (error, body) = int(rest.get(8..)?)?;
        (found == xid && (-1023..=0).contains(&error)).then_some((error, body))
    };
    header().is_some_and(|(error, body)| {
        if error != 0 {
            return body.is_empty();
        }
        // The client reads nothing from the reply to `addWatch`.
        (grammar == "i" && body.is_empty()) || read(grammar, body).is_some_and(<[u8]>::is_empty)
    })
}
