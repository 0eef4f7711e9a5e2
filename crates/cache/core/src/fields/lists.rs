//! Comma-separated lists (RFC 9110, section 5.6.1), in whose elements commas may be quoted.

/// What a backslash between quotes means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// It escapes the next byte: quoted strings (section 5.6.4).
    Escapes,
    /// Itself: entity tags (section 8.8.3).
    Verbatim,
}

/// The elements of a list, without the spaces around them; empty ones are skipped.
pub fn elements(list: &[u8], quoting: Quoting) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let elements = list.split(move |byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = quoting == Quoting::Escapes,
            b'"' => is_quoted = !is_quoted,
            _ => (),
        }
        *byte == b',' && !is_quoted
    });
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let trimmed = elements.map(move |element| {
        let begin = element.iter().position(|byte| !is_space(byte)).unwrap_or(element.len());
        let end = element.iter().rposition(|byte| !is_space(byte)).map_or(begin, |last| last + 1);
        &element[begin..end]
    });
    trimmed.filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests;
