//! `vickrey simulate extract`: writes the opportunities of a campaign or a seat from an exchange's
//! log as a stream.

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use whatif::stream::StreamWriter;

use super::recorded::{RecordedArgs, RecordedStream};
use crate::command::exit::Exit;
use crate::command::output_file;

#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    group = ArgGroup::new("source").arg("log").required(true),
    after_help = "Example:\n  vickrey simulate extract --log record --campaign summer --out summer.tsv 'time>=-7d'"
)]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    recorded: RecordedArgs,
    /// The output file, which appears only when it is complete [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &ExtractArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let log = args.recorded.log.as_ref().expect("the command line asks for one");
    let recorded = args.recorded.read(log)?;
    // The notes on what is left out go to stderr, not into the stream.
    recorded.write_heading(&mut std::io::stderr())?;
    match &args.out {
        Some(path) => output_file::write(path, |out| write(&recorded, out))?,
        None => write(&recorded, out)?,
    }
    Ok(recorded.exit)
}

fn write(recorded: &RecordedStream, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut writer = StreamWriter::new(out)?;
    for auction in &recorded.auctions {
        writer.write(auction)?;
    }
    writer.finish()?;
    Ok(())
}
