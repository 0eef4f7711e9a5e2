//! How commands end, and their exit codes.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use runtime::service::{ServiceError, ShellError};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// It ran, and a stated objective was missed.
    Missed,
    /// Wrong usage or configuration; nothing was started.
    Usage,
    /// The named object does not exist.
    NotFound,
    Unavailable,
    /// A bug.
    Defect,
    /// The object's state does not allow the change.
    Conflict,
    /// The object is not at the given version.
    Stale,
}

impl Exit {
    /// The exit code. `docs/operating.md` lists all of them.
    const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Missed => 1,
            Self::Usage => 64,
            Self::NotFound => 66,
            Self::Unavailable => 69,
            Self::Defect => 70,
            Self::Conflict => 73,
            Self::Stale => 75,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error that knows its exit code.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    exit: Exit,
    message: String,
}

impl CommandFailure {
    pub(crate) fn with_exit(exit: Exit, message: impl fmt::Display) -> anyhow::Error {
        Self { exit, message: message.to_string() }.into()
    }

    /// A mistake of the user.
    pub(crate) fn usage(message: impl fmt::Display) -> anyhow::Error {
        Self::with_exit(Exit::Usage, message)
    }

    pub(crate) fn unavailable(message: impl fmt::Display) -> anyhow::Error {
        Self::with_exit(Exit::Unavailable, message)
    }

    pub(crate) fn of_service(error: ServiceError) -> anyhow::Error {
        match error {
            ServiceError::Configuration(_) => Self::usage(error),
            ServiceError::Unavailable(_) => Self::unavailable(error),
            ServiceError::Defect(_) => Self::with_exit(Exit::Defect, error),
        }
    }

    pub(crate) fn of_shell(error: ShellError) -> anyhow::Error {
        match error {
            ShellError::Service(error) => Self::of_service(error),
            ShellError::NoService(_) => Self::usage(error),
            ShellError::Descriptors(_) | ShellError::Listen(_) | ShellError::Shards(_) => {
                Self::unavailable(error)
            }
            ShellError::Io(_) | ShellError::Panicked(_) => Self::with_exit(Exit::Defect, error),
        }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandFailure {}

/// Prints the error, if any, and returns the exit code.
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
    let exit = error.downcast_ref::<CommandFailure>().map_or(Exit::Defect, |failure| failure.exit);
    drop(writeln!(std::io::stderr(), "error: {error:#}"));
    exit.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_fails_is_told_by_the_exit_code() {
        let check = |error: ServiceError, want: u8| {
            let ended = code(Err(CommandFailure::of_shell(error.into())));
            assert_eq!(format!("{ended:?}"), format!("{:?}", ExitCode::from(want)));
        };
        check(ServiceError::configuration("a"), 64);
        check(ServiceError::unavailable("a"), 69);
        check(ServiceError::Defect("a".into()), 70);
    }

    #[test]
    fn every_exit_code_is_in_the_table_of_the_document() {
        let page = include_str!("../../../../docs/operating.md");
        let (_, table) = page.split_once("| exit | meaning |\n|---|---|\n").expect("the table");
        let rows = table.lines().take_while(|line| line.starts_with("| "));
        let documented: Vec<u8> = rows
            .map(|row| row.split('|').nth(1).expect("a cell").trim().parse().expect("a code"))
            .collect();
        let all = [
            Exit::Done,
            Exit::Missed,
            Exit::Usage,
            Exit::NotFound,
            Exit::Unavailable,
            Exit::Defect,
            Exit::Conflict,
            Exit::Stale,
        ];
        assert_eq!(documented, all.map(Exit::code));
    }
}
