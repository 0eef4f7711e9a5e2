//! The secret keys in the ledger's directory: one seals tokens, one keys requests' draws. They are
//! created at the first start and kept, so that tokens from before a restart open.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pacer_core::shard::token::{ReservationToken, ReservationTokenError, TOKEN_BYTES, TokenKey};
use pacer_core::strategy::DrawKey;
use tracing::warn;

use crate::store::engine::FILE_NAME;

pub(crate) type KeyBytes = [u8; 16];

const TOKEN_KEY_NAME: &str = "token.key";
const DRAW_KEY_NAME: &str = "draw.key";

/// Keys for tokens and draws.
#[derive(Clone, Debug)]
pub struct Keyring {
    /// The first key seals; all open.
    keys: Vec<TokenKey>,
    draws: DrawKey,
}

impl Keyring {
    /// The given keys, else those in `directory`, created if missing. Tokens sealed with the stored
    /// key open in any case.
    ///
    /// # Errors
    /// If a file cannot be read or written, or holds no key; names its path.
    pub fn open(
        directory: &Path,
        token: Option<[u8; 16]>,
        draw: Option<[u8; 16]>,
    ) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let own = own_key(directory, TOKEN_KEY_NAME)?;
        let mut keys: Vec<KeyBytes> = token.into_iter().chain([own]).collect();
        keys.dedup();
        let draws = draw.map_or_else(|| own_key(directory, DRAW_KEY_NAME), Ok)?;
        let keys = keys.into_iter().map(TokenKey::new).collect();
        Ok(Self { keys, draws: DrawKey::new(draws) })
    }

    /// The key that seals tokens.
    pub fn seals(&self) -> &TokenKey {
        &self.keys[0]
    }

    /// Opens a token of untrusted text.
    pub fn open_token(&self, text: &[u8]) -> Result<ReservationToken, ReservationTokenError> {
        let opened = self.keys[0].open(text);
        let others = || self.keys[1..].iter().find_map(|key| key.open(text).ok());
        opened.or_else(|error| others().ok_or(error))
    }

    /// Opens a token in binary from an untrusted source.
    pub fn open_bytes(
        &self,
        bytes: &[u8; TOKEN_BYTES],
    ) -> Result<ReservationToken, ReservationTokenError> {
        let opened = self.keys[0].open_bytes(bytes);
        let others = || self.keys[1..].iter().find_map(|key| key.open_bytes(bytes).ok());
        opened.or_else(|error| others().ok_or(error))
    }

    /// The key of requests' draws.
    pub const fn draws(&self) -> &DrawKey {
        &self.draws
    }
}

/// Decodes a key: base64 (RFC 4648, section 4) of 16 bytes.
pub(crate) fn parse_key(text: &str) -> Option<KeyBytes> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

fn own_key(directory: &Path, name: &str) -> io::Result<KeyBytes> {
    let path = directory.join(name);
    let in_place = |error: io::Error| {
        io::Error::new(error.kind(), format!("the key {}: {error}", path.display()))
    };
    let text = match read(&path).map_err(in_place)? {
        Some(text) => text,
        None => make(directory, name).map_err(in_place)?,
    };
    let remedy = "holds no key: put back a copy of it; without one, remove it, and no token of before \
                  counts";
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, remedy);
    parse_key(text.trim_end()).ok_or_else(damaged).map_err(in_place)
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a key, or takes that of a process that creates it at the same time.
fn make(directory: &Path, name: &str) -> io::Result<String> {
    // Written under another name until it is on disk: a start that ends midway must not block the
    // next. The lock admits one process at a time, which checks again: no key is ever replaced.
    let (path, unfinished) = (directory.join(name), directory.join(format!("{name}.unfinished")));
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(false).mode(0o600).open(&unfinished)?;
    file.lock()?;
    if let Some(text) = read(&path)? {
        // It may be another process's by now, or gone.
        let _gone = fs::remove_file(&unfinished);
        return Ok(text);
    }
    if name == TOKEN_KEY_NAME && directory.join(FILE_NAME).exists() {
        warn!(
            "the key {} is made anew beside a ledger that is there: what was reserved under the one \
             before counts in no budget",
            path.display()
        );
    }
    let text = STANDARD.encode(rand::random::<KeyBytes>());
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.set_len(0)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&unfinished, &path)?;
    fs::File::open(directory)?.sync_all()?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_kept_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let first = own_key(folder.path(), TOKEN_KEY_NAME).unwrap();
        assert_eq!(own_key(folder.path(), TOKEN_KEY_NAME).unwrap(), first);
        assert_ne!(own_key(folder.path(), DRAW_KEY_NAME).unwrap(), first);
        let path = folder.path().join(TOKEN_KEY_NAME);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        let error = Keyring::open(folder.path(), None, None).unwrap_err().to_string();
        assert!(error.contains("token.key: holds no key"), "{error}");
    }

    #[test]
    fn a_start_that_ended_midway_does_not_hold_up_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let unfinished = folder.path().join("token.key.unfinished");
        fs::write(&unfinished, "0123").unwrap();
        fs::set_permissions(&unfinished, Permissions::from_mode(0o644)).unwrap();
        let key = own_key(folder.path(), TOKEN_KEY_NAME).unwrap();
        let mode = folder.path().join(TOKEN_KEY_NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "whatever the unfinished one had");
        assert_eq!(own_key(folder.path(), TOKEN_KEY_NAME).unwrap(), key);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Each of them may be the first to start; none may replace another's key on disk.
    #[test]
    fn of_many_that_start_at_once_all_have_one_key() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let keys: Vec<_> = std::thread::scope(|scope| {
                let start = || scope.spawn(|| own_key(folder.path(), TOKEN_KEY_NAME).unwrap());
                let starts: Vec<_> = std::iter::repeat_with(start).take(8).collect();
                starts.into_iter().map(|it| it.join().unwrap()).collect()
            });
            let kept = own_key(folder.path(), TOKEN_KEY_NAME).unwrap();
            assert_eq!(keys, [kept; 8]);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}
