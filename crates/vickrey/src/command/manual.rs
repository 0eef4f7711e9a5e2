//! `vickrey completions` and `vickrey man`: the command line as shell completions and manual pages.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::command::exit::{CommandFailure, Exit};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the script
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write a page for every command to this directory, such as ~/.local/share/man/man1; it is
    /// created if missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "vickrey", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Exit::Done)
}

pub(crate) fn man(args: &ManArgs, command: Command) -> anyhow::Result<Exit> {
    match &args.dir {
        None => Man::new(command).render(&mut std::io::stdout())?,
        Some(dir) => {
            let made = std::fs::create_dir_all(dir);
            made.and_then(|()| clap_mangen::generate_to(command, dir)).map_err(|error| {
                CommandFailure::unavailable(format!(
                    "cannot write pages to {}: {error}",
                    dir.display()
                ))
            })?;
        }
    }
    Ok(Exit::Done)
}
