//! Arguments that all commands about accounts and campaigns share.

use std::path::PathBuf;

use clap::Args;

/// Who is asked, and in which form it answers.
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// The exchange's admin listener; https where a proxy in front of it speaks TLS. Its token is
    /// read from the variable VICKREY_ADMIN_TOKEN
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464")]
    pub(super) admin: String,
    /// Trust the authorities of this PEM file instead of the system's, with https
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Print the answer of the API as JSON
    #[arg(long)]
    pub(super) json: bool,
}
