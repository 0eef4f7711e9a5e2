//! Words in messages: those that were meant, lists of those that are known, and long ones.

/// Longest word, in bytes, for which another is looked for.
const WORD_BYTES_MAX: usize = 64;

/// Most known words that are looked at.
const KNOWN_MAX: usize = 10_000;

/// Most characters of a word that are shown.
const SHOWN_MAX: usize = 40;

/// The known word that `word` most likely misspells, apart from case, among the first ten thousand.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if WORD_BYTES_MAX < word.len() {
        return None;
    }
    let word = word.to_lowercase();
    let errors_max = match word.chars().count() {
        0..3 => 0,
        length => length.div_ceil(3),
    };
    known
        .into_iter()
        .take(KNOWN_MAX)
        .map(|name| (strsim::damerau_levenshtein(&word, &name.to_lowercase()), name))
        .filter(|&(errors, name)| errors <= errors_max && errors < name.chars().count())
        .min_by_key(|&(errors, _)| errors)
        .map(|(_, name)| name)
}

/// The words of a list, as `a, b and c`.
pub fn listed(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.concat(),
    }
}

/// A word of a user for a message: without control characters, and not too long.
pub fn shortened(word: &str) -> String {
    let mut rest = word.chars();
    let start: String = rest.by_ref().take(SHOWN_MAX).filter(|c| !c.is_control()).collect();
    if rest.next().is_some() { format!("{start}\u{2026}") } else { start }
}

#[cfg(test)]
mod tests;
