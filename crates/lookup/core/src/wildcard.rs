//! Patterns of texts, in which `*` stands for any characters.

/// Whether a text matches a pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at_pattern, mut at_text) = (0, 0);
    // Behind the last `*` that was met, and how much of the text it stands for, at least.
    let mut last_star: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                at_pattern += 1;
                last_star = Some((at_pattern, at_text));
            }
            Some(byte) if *byte == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => {
                let Some((behind, covered)) = last_star else { return false };
                last_star = Some((behind, covered + 1));
                (at_pattern, at_text) = (behind, covered + 1);
            }
        }
    }
    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
