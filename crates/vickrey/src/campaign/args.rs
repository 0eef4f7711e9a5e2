//! Arguments shared by all commands about accounts and campaigns.

use std::path::PathBuf;

use clap::Args;

/// The exchange's API, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// The exchange's admin listener; https if a proxy in front of it speaks TLS.
    /// The environment variable VICKREY_ADMIN_TOKEN holds its token
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464")]
    pub(super) admin: String,
    /// With https, trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Print the API's response as JSON
    #[arg(long)]
    pub(super) json: bool,
}
