//! How commands end, and what that is as an exit code.

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::aside;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked.
    Done,
    /// It ran, and a stated objective was missed.
    Missed,
    /// What it was told is wrong, and it started nothing.
    Usage,
    /// Something outside is in the way.
    Unavailable,
    /// A defect of ours.
    Defect,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Missed => 1,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
            Exit::Defect => 70,
        })
    }
}

/// An error that knows its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// What the user told us is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> anyhow::Error {
        Self { exit: Exit::Usage, message: message.to_string() }.into()
    }

    /// Something outside is in the way.
    pub(crate) fn unavailable(message: impl fmt::Display) -> anyhow::Error {
        Self { exit: Exit::Unavailable, message: message.to_string() }.into()
    }
}

/// Writes a file that the user asked for, whole or not at all.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    aside::write(path, |out| Ok(out.write_all(text.as_bytes())?))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Says what went wrong, if anything did, and turns the end into an exit code.
pub(crate) fn code(ended: anyhow::Result<Exit>) -> ExitCode {
    let error = match ended {
        Ok(exit) => return exit.into(),
        Err(error) => error,
    };
    // A reader that has gone, as with `| head`, is no failure of ours.
    let gone = error.downcast_ref::<std::io::Error>();
    if gone.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
        return Exit::Done.into();
    }
    let exit = error.downcast_ref::<Failure>().map_or(Exit::Defect, |failure| failure.exit);
    drop(writeln!(std::io::stderr(), "error: {error:#}"));
    exit.into()
}
