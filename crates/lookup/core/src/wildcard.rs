//! Patterns of texts, in which `*` stands for any characters.

/// Whether a text matches a pattern. Takes a time in proportion to their lengths.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(before) else { return false };
    let (between, behind) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place of each part leaves the most for those that follow.
    for part in between.split('*').filter(|part| !part.is_empty()) {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(behind)
}

#[cfg(test)]
mod tests;
