//! What decodes bytes from outside, for fuzzing.

use live_core::floor::FloorCommand;
use live_core::protocol::{Command, LiveError, ParsedCommand};
use live_core::rights::LiveRights;

use crate::access::TokenVerifier;
use crate::config::SigningKey;
use crate::lots::{commands, record};

/// A client's text as a command about lots, with these rights. None if it is another command.
///
/// # Errors
/// It is refused.
pub fn lots_command(rights: &LiveRights, text: &str) -> Option<Result<FloorCommand, LiveError>> {
    match ParsedCommand::parse(text).command {
        Ok(Command::Lots(command)) => Some(commands::floor_command(rights, command)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }
}

/// A record of a lot, decoded and encoded again. None if it is none.
pub fn lot_record(bytes: &[u8]) -> Option<Vec<u8>> {
    let record = record::decode(bytes).ok()?;
    let mut again = Vec::new();
    record::encode(&record, &mut again);
    Some(again)
}

/// The rights of a token.
///
/// # Errors
/// None of these keys signed it, or it is wrong.
pub fn token_rights(keys: &[SigningKey], token: &str) -> Result<LiveRights, LiveError> {
    TokenVerifier::new(keys).verify(token)
}
