//! Finds the name that a misspelt one most likely means.

const WORD_BYTES_MAX: usize = 64;

const NAMES_MAX: usize = 10_000;

/// The known name that `word` most likely misspells, among the first ten thousand.
pub(super) fn nearest<'n>(word: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if WORD_BYTES_MAX < word.len() {
        return None;
    }
    let errors_max = word.chars().count().div_ceil(3);
    known
        .take(NAMES_MAX)
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|&(errors, name)| errors <= errors_max && errors < name.len())
        .min_by_key(|&(errors, _)| errors)
        .map(|(_, name)| name)
}
