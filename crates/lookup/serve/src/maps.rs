//! The files of the provider map, read and checked together.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use hyper::header::HeaderMap;
use lookup_core::map::{CallId, FOLDER, MapPlace, MapProblem, ProviderMap, check};
use runtime::config::{ConfigProblem, load, matching};

use file::{MapFile, TablePlace};

pub use file::read;

/// The providers, and what is secret about them.
#[derive(Clone, Debug, Default)]
pub struct LoadedMaps {
    /// The map.
    pub map: ProviderMap,
    /// Header fields of requests, by provider.
    pub headers: Vec<HeaderMap>,
    /// How to connect to those that are databases, by provider.
    pub(crate) databases: Vec<Option<tokio_postgres::Config>>,
}

/// Reads the files that a pattern matches, such as `maps/*.toml`, relative to a folder.
///
/// # Errors
/// Every problem of all files, or of what they say together.
pub fn load_maps(folder: &Path, pattern: &str) -> Result<LoadedMaps, Vec<ConfigProblem>> {
    let problem = |remedy: String| ConfigProblem {
        file: None,
        line: None,
        column: None,
        key: "maps".to_owned(),
        value: Some(format!("\"{pattern}\"")),
        remedy,
    };
    let paths = matching(folder, pattern).0.map_err(|remedy| vec![problem(remedy)])?;
    if paths.is_empty() {
        return Err(vec![problem("no file matches".to_owned())]);
    }
    let mut maps = LoadedMaps::default();
    let (mut places, mut problems) = (BTreeMap::new(), Vec::new());
    for path in &paths {
        let shown = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        match load(path, read) {
            Ok(mut file) => {
                resolve_folders(&mut file, path.parent().unwrap_or(folder));
                add(&mut maps, &mut places, file, &shown);
            }
            Err(found) => problems.extend(found.iter().map(|problem| {
                let file = problem.file.clone().or_else(|| Some(shown.clone()));
                ConfigProblem { file, ..problem.clone() }
            })),
        }
    }
    // What is missing may be in a file that could not be read.
    if problems.is_empty() {
        problems = check(&maps.map).into_iter().map(|found| placed(&places, found)).collect();
    }
    if problems.is_empty() { Ok(maps) } else { Err(problems) }
}

/// Makes folders of files absolute, which are relative to that of the map.
fn resolve_folders(file: &mut MapFile, folder: &Path) {
    for provider in &mut file.map.providers {
        for (_, url) in &mut provider.instances {
            if let Some(relative) = url.strip_prefix(FOLDER) {
                *url = format!("{FOLDER}{}", folder.join(relative).display());
            }
        }
    }
}

/// Where the tables of a map are: file, line and path of keys.
type Places = BTreeMap<MapPlace, FilePlace>;

struct FilePlace {
    file: String,
    line: Option<usize>,
    path: String,
}

/// Adds a file to the map.
fn add(maps: &mut LoadedMaps, places: &mut Places, file: MapFile, name: &str) {
    let LoadedMaps { map, headers, databases } = maps;
    let (keys, providers) = (map.keys.len(), map.providers.len());
    let moved = |call: CallId| CallId { provider: call.provider + providers, ..call };
    for TablePlace { place, line } in file.places {
        let (place, path) = match place {
            MapPlace::Key(at) => (MapPlace::Key(at + keys), format!("key[{at}]")),
            MapPlace::Provider(at) => {
                (MapPlace::Provider(at + providers), format!("provider[{at}]"))
            }
            MapPlace::Call(call) => {
                let path = format!("provider[{}].call[{}]", call.provider, call.call);
                (MapPlace::Call(moved(call)), path)
            }
            MapPlace::Parameter(call, at) => {
                let path =
                    format!("provider[{}].call[{}].parameter[{at}]", call.provider, call.call);
                (MapPlace::Parameter(moved(call), at), path)
            }
        };
        places.insert(place, FilePlace { file: name.to_owned(), line, path });
    }
    map.keys.extend(file.map.keys);
    map.providers.extend(file.map.providers);
    headers.extend(file.headers);
    databases.extend(file.databases);
}

/// A problem of the map, in the file that it is about.
fn placed(places: &Places, MapProblem { place, key, value, remedy }: MapProblem) -> ConfigProblem {
    let FilePlace { file, line, path } = places.get(&place).expect("each table has its place");
    ConfigProblem {
        file: Some(file.clone()),
        line: *line,
        column: None,
        key: format!("{path}.{key}"),
        value: Some(format!("\"{value}\"")),
        remedy,
    }
}
