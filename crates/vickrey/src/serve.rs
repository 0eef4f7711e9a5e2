//! `vickrey serve`: reads the configuration and runs the services whose sections it has.

use std::path::{Path, PathBuf};

use clap::Args;
use runtime::config::load_tracked;
use runtime::control::Control;
use runtime::service::{Shell, ShellFile, ShellOptions};
use runtime::shutdown::Shutdown;
use tracing::info;

use crate::command::exit::{CommandFailure, Exit};
use crate::config::{read_config, services};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file; `vickrey config default` prints one to start from
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Number of shard threads, overriding the file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let (loaded, sources) = load_tracked(&args.config, read_config);
    let loaded = loaded.map_err(CommandFailure::usage)?;
    let mut config = loaded.value;
    if let Some(shards) = args.shards {
        config.shards.shards = shards.into();
    }
    let logging = runtime::logging::start(config.logging.clone())?;
    runtime::process::keep_files_private();
    let shutdown = Shutdown::new(config.drain);
    let control = Control::start()?;
    shutdown.on_signals(&control)?;
    let (path, digest) = (args.config.as_path(), loaded.digest);
    let options = ShellOptions {
        effective: loaded.effective,
        file: Some(ShellFile { path, sources, digest, read: read_config, logging }),
        folder: args.config.parent().unwrap_or(Path::new("")),
        listeners: Vec::new(),
        shutdown,
        control,
    };
    let shell = Shell::start(&services(), config, options).map_err(CommandFailure::of_shell)?;
    shell.join().map_err(CommandFailure::of_shell)?;
    info!("stopped");
    Ok(Exit::Done)
}
