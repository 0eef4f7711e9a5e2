//! Which route a request has: the most specific that its host and path allow.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::route::{CacheRoute, OriginPlace};

/// A route's folder cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cache.route.origin of `{route}`: {} cannot be read: {error}", folder.display())]
pub struct UnreadableFolder {
    route: String,
    folder: PathBuf,
    error: io::Error,
}

/// All routes, in the order of the configuration, and how to find them.
#[derive(Clone, Debug, Default)]
pub struct CacheRoutes {
    routes: Vec<Arc<CacheRoute>>,
    /// Indexes by host in lower case, longest path first.
    by_host: HashMap<String, Vec<usize>>,
    /// Those of any host, likewise.
    of_any_host: Vec<usize>,
}

impl CacheRoutes {
    pub(super) fn new(routes: Vec<CacheRoute>) -> Self {
        let mut found = Self::default();
        for (at, route) in routes.iter().enumerate() {
            match &route.host {
                Some(host) => found.by_host.entry(host.clone()).or_default().push(at),
                None => found.of_any_host.push(at),
            }
        }
        let lists = found.by_host.values_mut().chain([&mut found.of_any_host]);
        lists.for_each(|list| list.sort_by_key(|at| std::cmp::Reverse(routes[*at].path.len())));
        found.routes = routes.into_iter().map(Arc::new).collect();
        found
    }

    /// With folders that are relative to this one.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn in_folder(mut self, folder: &Path) -> Result<Self, UnreadableFolder> {
        for route in &mut self.routes {
            if let OriginPlace::Folder(files) = &route.origin {
                let files = folder.join(files);
                if let Err(error) = files.read_dir() {
                    return Err(UnreadableFolder { route: route.id.clone(), folder: files, error });
                }
                Arc::make_mut(route).origin = OriginPlace::Folder(files);
            }
        }
        Ok(self)
    }

    /// In the order of the configuration.
    pub fn all(&self) -> &[Arc<CacheRoute>] {
        &self.routes
    }

    /// The index of a request's route. None if it has none.
    pub fn find(&self, host: &str, path: &str) -> Option<usize> {
        let own = match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => self.by_host.get(&host.to_ascii_lowercase()),
            false => self.by_host.get(host),
        };
        let fits = |at: &&usize| path.starts_with(&self.routes[**at].path);
        own.into_iter().flatten().chain(&self.of_any_host).find(fits).copied()
    }
}

#[cfg(test)]
mod tests;
