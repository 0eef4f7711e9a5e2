//! Streams of auctions from files and pipes.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use whatif::stream::{self, StreamAuction};

use crate::command::exit::CommandFailure;

const READ_BYTES: usize = 1 << 20;

/// Reads all auctions of a file, or of stdin if it is `-`.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<StreamAuction>> {
    let options = stream::StreamOptions::default();
    let read = if path.as_os_str() == "-" {
        stream::read(io::stdin().lock(), options)
    } else {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        stream::read(BufReader::with_capacity(READ_BYTES, file), options)
    };
    read.map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &dyn std::error::Error) -> anyhow::Error {
    CommandFailure::usage(format!("{}: {error}", path.display()))
}
