//! Arguments of all commands that ask a running process.

use std::path::PathBuf;

use clap::Args;

/// Its admin API, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// The admin listener of the running process; https if a proxy in front of it speaks TLS.
    /// The environment variable VICKREY_ADMIN_TOKEN holds its token
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464")]
    pub(crate) admin: String,
    /// With https, trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Print the API's response as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
