//! The file that says how far the log's settlements are booked by the pacer.
//!
//! It may lag behind: what is forwarded again is booked once. So only its creation is durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const NAME: &str = "pacer-settled";
const NAME_UNFINISHED: &str = "pacer-settled.new";

/// The file.
#[derive(Debug)]
pub(super) struct OffsetFile {
    directory: PathBuf,
    written: u64,
}

impl OffsetFile {
    /// Opens it in the record's directory, or creates it at `end`: no earlier record can be the
    /// pacer's. A damaged one counts as 0.
    pub fn open(directory: &Path, end: u64) -> io::Result<Self> {
        let text = match fs::read_to_string(directory.join(NAME)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut file = Self { directory: directory.to_owned(), written: 0 };
                file.replace(end)?.sync_all()?;
                File::open(directory)?.sync_all()?;
                return Ok(file);
            }
            Err(error) => return Err(error),
        };
        let written = text.trim_end().parse().unwrap_or(0);
        Ok(Self { directory: directory.to_owned(), written })
    }

    /// Sequence up to which all settlements are booked.
    pub fn offset(&self) -> u64 {
        self.written
    }

    /// Writes a later offset.
    pub fn write(&mut self, offset: u64) -> io::Result<()> {
        if self.written < offset {
            self.replace(offset)?;
        }
        Ok(())
    }

    fn replace(&mut self, offset: u64) -> io::Result<File> {
        let unfinished = self.directory.join(NAME_UNFINISHED);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).open(&unfinished)?;
        writeln!(file, "{offset}")?;
        fs::rename(&unfinished, self.directory.join(NAME))?;
        self.written = offset;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_the_end_and_never_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = OffsetFile::open(folder.path(), 7).unwrap();
        file.write(5).unwrap();
        assert_eq!(OffsetFile::open(folder.path(), 99).unwrap().offset(), 7);
        file.write(12).unwrap();
        assert_eq!(OffsetFile::open(folder.path(), 99).unwrap().offset(), 12);
        fs::write(folder.path().join(NAME), "").unwrap();
        assert_eq!(OffsetFile::open(folder.path(), 99).unwrap().offset(), 0, "all is sent again");
    }
}
