//! The keys and rules that seal notices, and the key made if none is configured.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use exchange_core::KeyRing;

use crate::config::{ExchangeConfig, NoticesConfig, parse_key};

/// File of the key, beside the log.
const KEY_NAME: &str = "notices.key";
/// Its name until it is durable, so that an interrupted start does not block the next.
const KEY_NAME_UNFINISHED: &str = "notices.key.unfinished";

/// What seals the notices of this node besides the configuration.
#[derive(Clone, Copy)]
pub struct NodeKey {
    /// Number of this node.
    pub node: u32,
    /// The key that was made beside the log.
    pub own: [u8; 32],
}

impl std::fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeKey").field("node", &self.node).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub struct Sealer {
    pub keys: KeyRing,
    pub node: u32,
    pub notices: NoticesConfig,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("base", &self.notices.base).finish_non_exhaustive()
    }
}

impl Sealer {
    /// None without a dispatcher, hence without a key, or if no notices are configured.
    pub fn of(config: &ExchangeConfig, key: Option<NodeKey>) -> Option<Self> {
        let (notices, NodeKey { node, own }) = (config.notices.as_ref()?, key?);
        let first = notices.key.unwrap_or(own);
        let mut keys = vec![first];
        // Our own key may have sealed live tokens before one was configured.
        let before = [notices.key_previous, Some(own)];
        keys.extend(before.into_iter().flatten().filter(|key| *key != first));
        keys.dedup();
        Some(Self { keys: KeyRing::new(&keys)?, node, notices: notices.clone() })
    }
}

/// The key in `directory`, made at the first start.
///
/// # Errors
/// It cannot be read or written, or is not a key.
pub fn read_or_create_key(directory: &Path) -> io::Result<[u8; 32]> {
    let path = directory.join(KEY_NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let digits: String =
                rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect();
            let unfinished = directory.join(KEY_NAME_UNFINISHED);
            match fs::remove_file(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => (),
            }
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            writeln!(file, "{digits}")?;
            // Tokens that it seals must open after a crash.
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            fs::File::open(directory)?.sync_all()?;
            digits
        }
        Err(error) => return Err(error),
    };
    let place = path.display();
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{place} holds no key"));
    parse_key(text.trim_end()).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_kept_from_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let key = read_or_create_key(folder.path()).unwrap();
        assert_eq!(read_or_create_key(folder.path()).unwrap(), key);
        let path = folder.path().join(KEY_NAME);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(read_or_create_key(tempfile::tempdir().unwrap().path()).unwrap(), key);
        fs::write(&path, "short").unwrap();
        let error = read_or_create_key(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("holds no key"), "{error}");
    }

    #[test]
    fn a_start_that_ended_midway_does_not_hold_up_the_next() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(KEY_NAME_UNFINISHED), "0123").unwrap();
        let key = read_or_create_key(folder.path()).unwrap();
        assert_eq!(read_or_create_key(folder.path()).unwrap(), key);
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0].file_name(), KEY_NAME);
    }
}
