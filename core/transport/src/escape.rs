//! Escapes untrusted text for messages, logs and the `repr` of objects.
//!
//! Such text is untrusted because any client with the right to create nodes chooses their names and
//! data, and the operator of a server chooses its replies. Without escaping, the text could move
//! the cursor of a terminal, start a new line in a log, or reverse the direction of the text after
//! it. This module is in the transport, because the transport logs such text too.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Maximum number of characters shown of one text.
const LONGEST: usize = 1024;

/// Maximum number of characters shown of a whole message.
const LONGEST_MESSAGE: usize = 4096;

/// Displays text with all unprintable characters escaped: control characters, line separators,
/// direction marks, and invisible characters. Displays at most 1024 characters.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, cut) = shorten(self.0, LONGEST);
        write_escaped(f, text)?;
        if cut { f.write_char('…') } else { Ok(()) }
    }
}

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Escapes all unprintable characters in a message that can contain untrusted text.
#[must_use]
pub fn message(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.len() <= LONGEST_MESSAGE && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text;
    }
    let mut shown = String::with_capacity(text.len().min(LONGEST_MESSAGE));
    let (text, cut) = shorten(&text, LONGEST_MESSAGE);
    // Writing to a `String` never fails.
    write_escaped(&mut shown, text).ok();
    if cut {
        shown.push('…');
    }
    shown.into()
}

/// Returns the first `longest` characters of a text, and `true` if the text is longer.
fn shorten(text: &str, longest: usize) -> (&str, bool) {
    match text.char_indices().nth(longest) {
        Some((at, _)) => (&text[..at], true),
        None => (text, false),
    }
}

fn write_escaped(out: &mut impl Write, text: &str) -> fmt::Result {
    // `escape_debug` knows which characters are printable. But it also escapes quotes and
    // backslashes, which must stay unchanged here. Therefore, the text is split at these
    // characters.
    for part in text.split_inclusive(['\\', '"', '\'']) {
        let literal = part.strip_suffix(['\\', '"', '\'']).unwrap_or(part);
        write!(out, "{}{}", literal.escape_debug(), &part[literal.len()..])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_print_is_escaped() {
        let shown = |text| Escaped(text).to_string();
        assert_eq!(shown("\u{1b}[31mred\u{7}\r\n\0"), r"\u{1b}[31mred\u{7}\r\n\0");
        assert_eq!(shown("a\u{202e}b\u{2066}c\u{2028}d\u{2029}e"), r"a\u{202e}b\u{2066}c\u{2028}d\u{2029}e");
        assert_eq!(shown("\u{9b}1m\u{200b}\u{feff}\u{e0041}"), r"\u{9b}1m\u{200b}\u{feff}\u{e0041}");
    }

    #[test]
    fn everything_else_is_shown_as_it_is() {
        for text in ["", "host-1.example.org", "it's \"C:\\temp\"", "größe 日本 हिन्दी e\u{301} 🔒"]
        {
            assert_eq!(Escaped(text).to_string(), text);
            assert_eq!(format!("{:?}", Escaped(text)), text);
            assert_eq!(message(text.to_owned().into()), text);
        }
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(Escaped(&"é".repeat(LONGEST)).to_string(), "é".repeat(LONGEST));
        assert_eq!(Escaped(&"é".repeat(LONGEST + 1)).to_string(), "é".repeat(LONGEST) + "…");
        assert_eq!(message("x".repeat(5000).into()).chars().count(), LONGEST_MESSAGE + 1);
    }

    #[test]
    fn what_is_shown_can_be_shown_again() {
        let once = message("\u{1b}\\\"\n".into());
        assert_eq!(message(once.clone()), once);
    }
}
