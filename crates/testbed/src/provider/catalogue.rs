//! What providers have: records that depend on what is asked for alone, so that a client can tell
//! whether an answer is complete.

use serde_json::{Value, json};

use crate::draws::Draws;

/// The largest size of a file, in bytes.
pub const FILE_BYTES_MAX: usize = 4 << 30;

/// Sections of data taking in a file.
const LUMIS: usize = 2;

/// How much there is.
#[derive(Clone, Debug)]
pub struct CatalogueOptions {
    /// Blocks of a dataset.
    pub blocks: usize,
    /// Files of a block.
    pub files: usize,
    /// Items of a group.
    pub items: usize,
}

impl Default for CatalogueOptions {
    fn default() -> Self {
        Self { blocks: 10, files: 10, items: 100 }
    }
}

/// An answer: its type and body.
pub(super) struct ProviderAnswer {
    pub kind: &'static str,
    pub body: Vec<u8>,
}

const JSON: &str = "application/json";

/// The catalogue of one provider of a farm.
pub(super) struct ProviderCatalogue<'c> {
    pub options: &'c CatalogueOptions,
    /// Index of the provider.
    pub provider: usize,
    pub seed: u64,
}

impl ProviderCatalogue<'_> {
    /// What a path and query ask for. None if it is unknown.
    pub fn answer(&self, target: &str) -> Option<ProviderAnswer> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let values = |name: &str| values_of(query, name);
        let one = |name: &str| values(name).into_iter().next();
        let path: Vec<String> = path.split('/').skip(1).map(decoded).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        Some(match path[..] {
            ["datasets"] => json_answer(&self.datasets(&one("dataset")?)),
            ["blocks"] => json_answer(&self.blocks(&one("dataset")?)),
            ["files"] => json_answer(&self.files(&one("dataset")?)),
            ["filelumis"] => {
                let blocks = values("block_name");
                json_answer(&blocks.iter().flat_map(|of| self.lumis(of)).collect())
            }
            ["items"] => {
                let number = |name: &str| one(name).and_then(|text| text.parse::<usize>().ok());
                let items = self.items(&one("group")?).into_iter();
                let items = items.skip(number("offset").unwrap_or(0));
                json_answer(&items.take(number("limit").unwrap_or(usize::MAX)).collect())
            }
            ["dids", dataset, "dids"] => lines(&self.dids(dataset)),
            ["replicas"] => lines(&self.replicas(&one("block")?)),
            ["segments"] => {
                let users = values("uid");
                let users = users.iter().flat_map(|list| list.split(','));
                let users: Vec<_> = users.map(|user| self.segments(user)).collect();
                json_answer_of(&json!({ "users": users }))
            }
            ["categories"] => self.categories(&values("url")),
            ["now", place] => self.weather(place),
            _ => return None,
        })
    }

    fn draws(&self, key: &str) -> Draws {
        Draws::keyed(self.seed, key.as_bytes())
    }

    fn block_names(&self, dataset: &str) -> Vec<String> {
        (0..self.options.blocks).map(|at| format!("{dataset}#{at}")).collect()
    }

    fn file_names(&self, block: &str) -> Vec<String> {
        let name = block.replace('#', "/");
        (0..self.options.files).map(|at| format!("/store{name}/{at}.root")).collect()
    }

    fn datasets(&self, pattern: &str) -> Vec<Value> {
        let names = (0..3).map(|at| pattern.replace('*', &format!("v{at}")));
        let dataset = |name: String| {
            let files = self.options.blocks * self.options.files;
            json!({ "dataset": name, "creation_date": 1_295_827_200, "nfiles": files })
        };
        let mut datasets: Vec<_> = names.map(dataset).collect();
        datasets.dedup();
        datasets
    }

    fn blocks(&self, dataset: &str) -> Vec<Value> {
        let block = |name: &String| {
            let sizes =
                self.file_names(name).iter().map(|file| self.file_size(file)).sum::<usize>();
            json!({ "block_name": name, "block_size": sizes })
        };
        self.block_names(dataset).iter().map(block).collect()
    }

    fn file_size(&self, file: &str) -> usize {
        self.draws(file).below(FILE_BYTES_MAX)
    }

    fn files(&self, dataset: &str) -> Vec<Value> {
        let names = self.block_names(dataset).into_iter().flat_map(|block| self.file_names(&block));
        let file = |name: String| {
            let size = self.file_size(&name);
            json!({ "logical_file_name": name, "file_size": size, "event_count": size % 1_000 })
        };
        names.map(file).collect()
    }

    fn lumis(&self, block: &str) -> Vec<Value> {
        let lumi = |file: &str| {
            let mut draws = self.draws(file);
            let run = 1 + draws.below(100);
            let (size, file) = (self.file_size(file), file.to_owned());
            (1..=LUMIS).map(move |lumi| {
                json!({ "logical_file_name": file, "file_size": size, "run_num": run,
                        "lumi_section_num": lumi })
            })
        };
        self.file_names(block).iter().flat_map(|file| lumi(file)).collect()
    }

    /// Each provider knows the same items, and something of its own about them.
    fn items(&self, group: &str) -> Vec<Value> {
        let item = |at: usize| {
            let name = format!("{group}/{at}");
            let mut item = json!({ "name": name, "size": self.draws(&name).below(1_000) });
            item[format!("p{}", self.provider)] = json!(at * 1_000 + self.provider);
            item
        };
        (0..self.options.items).map(item).collect()
    }

    fn dids(&self, dataset: &str) -> Vec<Value> {
        let block = |name: &String| {
            json!({ "name": name, "bytes": self.draws(name).below(FILE_BYTES_MAX),
                    "length": self.options.files })
        };
        self.block_names(dataset).iter().map(block).collect()
    }

    fn replicas(&self, block: &str) -> Vec<Value> {
        let site = self.draws(block).below(5);
        (0..2).map(|at| json!({ "rse": format!("T2_XX_Site{}", (site + at) % 5) })).collect()
    }

    fn segments(&self, user: &str) -> Value {
        let mut draws = self.draws(user);
        let segments: Vec<_> = (0..3).map(|_| format!("s{}", draws.below(100))).collect();
        let interest = *draws.pick(&["sports", "travel", "music", "food"]);
        json!({ "uid": user, "segments": segments, "interests": { "top": interest } })
    }

    fn categories(&self, urls: &[String]) -> ProviderAnswer {
        let mut body = "url,category,brand_safe\r\n".to_owned();
        for url in urls {
            let category = 1 + self.draws(url).below(26);
            body.push_str(&format!("\"{}\",IAB{category},true\r\n", url.replace('"', "\"\"")));
        }
        ProviderAnswer { kind: "text/csv", body: body.into_bytes() }
    }

    fn weather(&self, place: &str) -> ProviderAnswer {
        let mut draws = self.draws(place);
        let (celsius, condition) = (draws.below(40), *draws.pick(&["clear", "rain", "snow"]));
        let place = place.replace('&', "&amp;").replace('<', "&lt;");
        let body = format!(
            "<?xml version=\"1.0\"?><weather><report><place>{place}</place>\
             <celsius>{celsius}</celsius><condition>{condition}</condition></report></weather>"
        );
        ProviderAnswer { kind: "application/xml", body: body.into_bytes() }
    }
}

fn json_answer(records: &Vec<Value>) -> ProviderAnswer {
    json_answer_of(&json!(records))
}

fn json_answer_of(value: &Value) -> ProviderAnswer {
    ProviderAnswer { kind: JSON, body: value.to_string().into_bytes() }
}

fn lines(records: &[Value]) -> ProviderAnswer {
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    ProviderAnswer { kind: "application/x-ndjson", body: lines.into_bytes() }
}

/// All values of a name in a query.
fn values_of(query: &str, name: &str) -> Vec<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(of, _)| *of == name).map(|(_, value)| decoded(value)).collect()
}

/// Without percent-encoding. What is encoded wrongly stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_decides_alone() {
        let options = CatalogueOptions { blocks: 2, files: 3, items: 4 };
        let of = |provider| ProviderCatalogue { options: &options, provider, seed: 1 };
        let body = |provider, target: &str| of(provider).answer(target).unwrap().body;
        let records =
            |target: &str| -> Vec<Value> { serde_json::from_slice(&body(0, target)).unwrap() };
        assert_eq!(records("/blocks?dataset=%2Fa%2Fb%2Fc")[1]["block_name"], "/a/b/c#1");
        assert_eq!(records("/files?detail=1&dataset=%2Fa%2Fb%2Fc").len(), 6);
        let blocks = "/filelumis?block_name=%2Fa%2Fb%2Fc%230&block_name=%2Fa%2Fb%2Fc%231";
        assert_eq!(records(blocks).len(), 12);
        assert_eq!(body(0, blocks), body(7, blocks));
        assert_ne!(body(0, "/items?group=g"), body(7, "/items?group=g"), "each knows its own");
        assert!(of(0).answer("/nothing").is_none() && of(0).answer("/blocks").is_none());
    }
}
