//! An output file: written beside its final place, and moved there once it is complete.
//!
//! An existing file stays until then. Unless the process is killed, no partial file remains. Knows
//! nothing of the content.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::command::exit::CommandFailure;

const WRITE_BYTES: usize = 1 << 20;

/// Permissions of a new file, before the umask.
const MODE: u32 = 0o666;

/// Checks that a file can be written at `path`, before the work that fills it.
pub(crate) fn check(path: &Path) -> anyhow::Result<()> {
    match fs::metadata(path) {
        Ok(known) if !known.is_file() => Ok(()),
        _ => {
            let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            temporary_for(&place).map(drop).map_err(|error| cannot_write(path, &error))
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> anyhow::Error {
    CommandFailure::unavailable(format!("cannot write {}: {error}", path.display()))
}

/// Writes the file at `path`. `fill` writes all of it and may fail.
///
/// A terminal, a pipe or any other non-file is written to directly.
pub(crate) fn write(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cannot = |error: &io::Error| cannot_write(path, error);
    let known = match fs::metadata(path) {
        Ok(known) => Some(known),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(cannot(&error)),
    };
    let told = |error: anyhow::Error| match error.downcast_ref::<io::Error>() {
        Some(error) => cannot(error),
        None => error,
    };
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        let file = OpenOptions::new().write(true).open(path).map_err(|error| cannot(&error))?;
        return filled(&file, fill).map_err(told);
    }
    // If `path` is a link, its target is replaced, not the link.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = temporary_for(&place).map_err(|error| cannot(&error))?;
    filled(temporary.as_file(), fill).map_err(told)?;
    settle(temporary, known.as_ref(), &place).map_err(|error| cannot(&error))
}

/// Writes an output file, completely or not at all.
pub(crate) fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, |out| Ok(out.write_all(text.as_bytes())?))
}

/// Moves a complete file to its place, with the permissions of the one that it replaces.
fn settle(temporary: NamedTempFile, known: Option<&Metadata>, place: &Path) -> io::Result<()> {
    if let Some(known) = known {
        temporary.as_file().set_permissions(known.permissions())?;
    }
    // Otherwise a power loss might keep the name without the content.
    temporary.as_file().sync_all()?;
    temporary.persist(place)?;
    Ok(())
}

/// A temporary file in the folder of `place`, removed unless it is moved there.
fn temporary_for(place: &Path) -> io::Result<NamedTempFile> {
    let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let folder = match place.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    // Reports a missing folder without the name of the temporary file, which users do not know.
    fs::metadata(&folder)?;
    let made = Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder);
    made.map_err(|error| error.kind().into())
}

fn filled(
    file: &File,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(WRITE_BYTES, file);
    let ended = fill(&mut out).and_then(|()| out.flush().map_err(Into::into));
    // Buffered data is not written after an error.
    drop(out.into_parts());
    ended
}
