//! The query of a URI, form-decoded (URL Standard, section 5.1).

/// Value of a name in a query that is not UTF-8 once decoded, or wrongly encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not UTF-8 once its `%` are decoded")]
pub struct UndecodableValue;

/// The first value of a name: `+` is a space. None if the name does not occur.
///
/// # Errors
/// The value cannot be decoded.
pub fn query_value(query: &str, name: &str) -> Result<Option<String>, UndecodableValue> {
    query_values(query, name).next().transpose()
}

/// All values of a name, likewise.
pub fn query_values(
    query: &str,
    name: &str,
) -> impl Iterator<Item = Result<String, UndecodableValue>> {
    query.split('&').filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_name = percent_decoded(&key.replace('+', " ")).as_deref() == Some(name);
        is_name.then(|| percent_decoded(&value.replace('+', " ")).ok_or(UndecodableValue))
    })
}

/// The names, decoded as far as possible.
pub fn query_names(query: &str) -> impl Iterator<Item = String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let name = pair.split('=').next().unwrap_or_default().replace('+', " ");
        percent_decoded(&name).unwrap_or(name)
    })
}

/// A percent-decoded text (RFC 3986, section 2.1). None if it is malformed or not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok()?;
        // `from_str_radix` accepts a sign.
        let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
