//! Secrets: texts that no message, page or log may show, given literally or by reference. It must
//! not know their use.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use crate::config::inputs::ConfigInputs;

/// Largest file that contains a secret: 64 KiB.
pub const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Replaces a secret wherever one would be shown.
pub const MASK: &str = "***";

/// A secret text: every format shows it as [`MASK`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: for use, never for a message.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference<'t> {
    Variable(&'t str),
    /// The whole content of a file.
    File(&'t str),
}

impl<'t> Reference<'t> {
    /// Parses a reference. A secret that begins like one must itself be given by reference.
    fn parse(text: &'t str) -> Option<Self> {
        let variable = text.strip_prefix("env:").map(Self::Variable);
        variable.or_else(|| text.strip_prefix("file:").map(Self::File))
    }
}

/// Whether a text is a reference, and so may be shown.
pub(in crate::config) fn is_reference(text: &str) -> bool {
    Reference::parse(text).is_some()
}

/// Follows a reference, relative to `folder`, or takes the literal text. The content behind a
/// reference is the secret, even if it looks like a reference. The error is the remedy, which may
/// name the reference but not the secret.
pub(in crate::config) fn resolve(
    text: &str,
    folder: &Path,
    inputs: &ConfigInputs<'_>,
) -> Result<Secret, String> {
    let found = match Reference::parse(text) {
        None => text.to_owned(),
        Some(_) if inputs.is_closed() => {
            return Err("cannot be followed from a text that is no file".to_owned());
        }
        Some(Reference::Variable("")) => return Err("names no variable".to_owned()),
        Some(Reference::Variable(name)) => match inputs.variable(name).map(OsString::into_string) {
            Some(Ok(value)) => value,
            Some(Err(_)) => return Err("the variable is not UTF-8".to_owned()),
            None => return Err("the variable is not set".to_owned()),
        },
        Some(Reference::File("")) => return Err("names no file".to_owned()),
        Some(Reference::File(path)) => from_file(&folder.join(path), inputs)?,
    };
    match (found.is_empty(), Reference::parse(text)) {
        (false, _) => Ok(Secret(found)),
        (true, None) => Err("must not be empty".to_owned()),
        (true, Some(Reference::Variable(_))) => Err("the variable is empty".to_owned()),
        (true, Some(Reference::File(_))) => Err("the file is empty".to_owned()),
    }
}

fn from_file(path: &Path, inputs: &ConfigInputs<'_>) -> Result<String, String> {
    let bytes = inputs
        .read(path, SECRET_BYTES_MAX, false)
        .map_err(|error| format!("the file cannot be read: {error}"))?;
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err("the file is larger than 64KiB, the most that a secret has".to_owned());
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
    // Editors and `echo` add a final newline that is not part of the secret.
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}
