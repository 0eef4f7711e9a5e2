//! One auction with the real DSPs over the real fan-out: an exchange in this process runs one
//! request with `ext.debug`, and ends. The request and the DSPs' requests have `test` 1.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use exchange_core::explain::Explanation;
use exchange_serve::{AUCTION_PATH, ENRICHMENT_MEMORIES, Exchange, ExchangeConfig};
use lookup_serve::LookupConfig;
use openrtb::members;
use record::{RECORD, RecordConfig, RecordService};
use runtime::listen::listen;
use runtime::service::{LoneOptions, LoneService, Ports, RunningService as _};
use runtime::shards::ShardsOptions;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;

use super::{data, json};
use crate::command::exit::CommandFailure;
use crate::config::enrichments::LinkedMemories;

const DRAIN: Duration = Duration::from_secs(1);
/// Added to the longest auction before the wait for a response ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// `[lookup]` of a file.
pub(super) struct LookupInFolder<'f> {
    pub config: LookupConfig,
    /// Where the file is.
    pub folder: &'f Path,
}

/// Runs an auction for `body`, a valid request, among the DSPs of `config`.
pub(super) fn ask(
    mut config: ExchangeConfig,
    record: Option<RecordConfig>,
    lookup: Option<LookupInFolder<'_>>,
    body: &str,
) -> anyhow::Result<Explanation> {
    // It has no other callers, and nothing is kept.
    config.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.tls = None;
    config.publishers_only = false;
    config.callers.clear();
    let publishers = &mut config.market.publishers;
    publishers.others.debug = true;
    publishers.named.values_mut().for_each(|terms| terms.debug = true);
    let folder = tempfile::tempdir()?;
    let record = record.map(|config| {
        let config = RecordConfig { directory: folder.path().to_path_buf(), ..config };
        RecordService::open(&config).map_err(CommandFailure::unavailable)
    });
    let record = record.transpose()?;
    let mut ports = Ports::default();
    if let Some(record) = &record {
        ports.offer(&RECORD, record.record().clone());
    }
    let shutdown = Shutdown::new(DRAIN);
    let lookup = lookup.filter(|_| !config.market.enrichments.is_empty());
    let lookup = lookup.map(|it| data::start(it.config, it.folder, &shutdown)).transpose()?;
    let mut known = Vec::new();
    if let Some(lookup) = &lookup {
        let memories = LinkedMemories(lookup.service().memories().clone());
        known = data::look_up(&memories, &config, body)?;
        ports.offer(&ENRICHMENT_MEMORIES, Box::new(memories));
    }
    let patience = config.limits.tmax_max + PATIENCE;
    let body = asking(body).ok_or_else(|| CommandFailure::usage("the request is not an object"))?;
    let callers = listen(config.listen).map_err(CommandFailure::unavailable)?;
    let address = callers.local_addr()?;
    let options = LoneOptions {
        shards: ShardsOptions::default(),
        listeners: vec![callers],
        shutdown: shutdown.clone(),
        tracer: Tracer::off(),
        ports,
    };
    let exchange =
        LoneService::<Exchange>::start(config, options).map_err(CommandFailure::of_service)?;
    let names_are_known = exchange.service().names_are_known();
    while !names_are_known() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = post(address, &body, patience);
    drop(known);
    shutdown.begin();
    exchange.join().map_err(CommandFailure::of_service)?;
    lookup.map_or(Ok(()), LoneService::join).map_err(CommandFailure::of_service)?;
    record.map_or(Ok(()), |record| record.close()).map_err(CommandFailure::of_service)?;
    explanation(&answer?)
}

/// The request with `test` 1 and `ext.debug`.
fn asking(body: &str) -> Option<String> {
    let request = members(body)?;
    let ext = request.iter().find(|(key, _)| &**key == "ext").map_or("{}", |(_, raw)| raw);
    let debug = [("debug", "1")];
    let ext = json::with(ext, &["debug"], &debug).or_else(|| json::with("{}", &[], &debug))?;
    json::with(body, &["test", "ext"], &[("test", "1"), ("ext", &ext)])
}

fn post(address: SocketAddr, body: &str, patience: Duration) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    let length = body.len();
    let head = format!(
        "POST {AUCTION_PATH} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn explanation(answer: &[u8]) -> anyhow::Result<Explanation> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.lines().next().unwrap_or_default();
    let mut response: serde_json::Value = serde_json::from_str(body)
        .map_err(|_| anyhow::anyhow!("our own exchange answered `{status}` without JSON"))?;
    if let (Some(path), Some(problem)) =
        (response["error"]["path"].as_str(), response["error"]["problem"].as_str())
    {
        return Err(CommandFailure::usage(format!("the request: {path}: {problem}")));
    }
    let debug = response["ext"]["debug"].take();
    if let Some(bytes) = debug["too_large"].as_u64() {
        let problem = format!("there are {bytes} bytes to explain, too many; sell or ask less");
        return Err(CommandFailure::unavailable(problem));
    }
    Ok(serde_json::from_value(debug)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_made_a_test_and_otherwise_left_alone() {
        for (body, want) in [
            (r#"{"id":"r"}"#, r#"{"test":1,"ext":{"debug":1},"id":"r"}"#),
            (
                r#"{"id":"r","test":0,"ext":{"a":1.0,"debug":0}}"#,
                r#"{"test":1,"ext":{"debug":1,"a":1.0},"id":"r"}"#,
            ),
            (r#"{"ext":7}"#, r#"{"test":1,"ext":{"debug":1}}"#),
        ] {
            assert_eq!(asking(body).as_deref(), Some(want));
        }
    }
}
