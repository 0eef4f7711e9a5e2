//! `vickrey explain`: runs one request against a configuration, step by step. DSPs are called for
//! real, or a file has their responses.

mod answers;
mod data;
mod json;
mod live;
mod table;
mod text;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use exchange_core::explain::Explanation;
use exchange_serve::explain::rehearse;
use exchange_serve::{Exchange, ExchangeConfig};
use lookup_serve::Lookup;
use openrtb::{BidRequest, InvalidRequest, parse_request};
use record::RecordService;

use crate::command::exit::{CommandFailure, Exit};
use crate::config::read_config;
use live::LookupInFolder;

/// Id of an auction without calls.
const AUCTION_ID: &str = "00000000000000000000000000000000";

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The bid request, as a caller would post it
    file: PathBuf,
    /// Configuration file, as for `vickrey serve`
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Responses of the DSPs, as a JSON object by DSP id, instead of calling them: a bid response,
    /// {"status":204}, {"status":200,"body":"…"}, or an outcome such as "late"; DSPs that are not
    /// listed respond 204. Without this option the DSPs are called, by a request with
    /// `test` 1
    #[arg(long, value_name = "FILE")]
    dsp_answers: Option<PathBuf>,
    /// Our id of the auction, which orders equal bids: 32 lower-case hexadecimal digits. The
    /// default with --dsp-answers is all zeros; an auction that calls DSPs has its own id
    #[arg(long, value_name = "ID", requires = "dsp_answers", value_parser = auction_id)]
    auction_id: Option<String>,
    /// Print JSON, in the format of `ext.debug`
    #[arg(long)]
    json: bool,
}

fn auction_id(text: &str) -> Result<String, String> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() == 32 && text.bytes().all(is_digit) {
        return Ok(text.to_owned());
    }
    Err("must be 32 lower-case hexadecimal digits".to_owned())
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let mut config =
        runtime::config::load(&args.config, read_config).map_err(CommandFailure::usage)?;
    let Some(exchange) = config.take_service::<Exchange>() else {
        let file = args.config.display();
        return Err(CommandFailure::usage(format!(
            "{file} has no [exchange] to explain auctions of"
        )));
    };
    let body = read(&args.file, exchange.inbound.body.bytes_max)?;
    let wrong = |invalid: InvalidRequest| in_file(&args.file, &invalid);
    let request = parse_request(&body).map_err(wrong)?;
    let explanation = match &args.dsp_answers {
        Some(file) => {
            let id = args.auction_id.as_deref().unwrap_or(AUCTION_ID);
            let answers = answers(file, &exchange, id, &request)?;
            rehearse(&exchange, &body, id, |dsp| answers.of(dsp)).map_err(wrong)?
        }
        None => {
            // What is wrong with the request is found before any DSP is asked.
            let rehearsed = rehearse(&exchange, &body, AUCTION_ID, |_| answers::NO_BID);
            let own = rehearsed.map_err(wrong)?.request;
            // The request that the exchange got says that it is a test; the caller's may not.
            let record = config.take_service::<RecordService>();
            let folder = args.config.parent().unwrap_or(Path::new(""));
            let lookup = config.take_service::<Lookup>();
            let lookup = lookup.map(|config| LookupInFolder { config, folder });
            Explanation { request: own, ..live::ask(exchange, record, lookup, &body)? }
        }
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&explanation)?)?;
    } else {
        let colours = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        out.write_all(text::render(&explanation, colours).as_bytes())?;
    }
    Ok(Exit::Done)
}

fn in_file(file: &Path, problem: &impl std::fmt::Display) -> anyhow::Error {
    CommandFailure::usage(format!("{}: {problem}", file.display()))
}

fn answers(
    file: &Path,
    exchange: &ExchangeConfig,
    id: &str,
    request: &BidRequest<'_>,
) -> anyhow::Result<answers::Answers> {
    let dsps: Vec<_> = exchange.market.dsps.iter().map(|dsp| &*dsp.id).collect();
    let bytes = exchange.endpoints.iter().map(|dsp| dsp.options.response_bytes_max);
    let text = read(file, bytes.sum::<usize>().max(1024 * 1024))?;
    let own = request.id.as_ref().map_or("", |own| own);
    answers::read(&text, &dsps, own, id).map_err(|problems| {
        let file = file.display();
        match problems.as_slice() {
            [problem] => CommandFailure::usage(format!("{file}: {problem}")),
            several => {
                let lines = several.iter().map(|problem| format!("\n  {problem}"));
                let lines: String = lines.collect();
                CommandFailure::usage(format!("{} problems in {file}{lines}", several.len()))
            }
        }
    })
}

/// Reads a file in UTF-8 of at most `bytes_max` bytes.
fn read(path: &Path, bytes_max: usize) -> anyhow::Result<String> {
    let unreadable = |error: std::io::Error| in_file(path, &format!("cannot be read: {error}"));
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > bytes_max {
        return Err(in_file(
            path,
            &format!("is larger than {bytes_max} bytes, the most that counts"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        in_file(path, &format!("is not UTF-8 at byte {at}"))
    })
}
