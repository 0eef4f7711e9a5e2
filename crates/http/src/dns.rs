//! Name resolution with the system's configuration.

use std::net::IpAddr;
use std::pin::Pin;

use hickory_resolver::{ResolverBuilder, TokioResolver};

/// Addresses of a host, or the resolver's error.
pub type Resolved<'r> = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + Send + 'r>>;

/// Resolves host names.
pub trait Resolve: Send + Sync {
    /// The addresses of `host`, which is not an address itself.
    ///
    /// # Errors
    /// The resolver's error.
    fn resolve<'r>(&'r self, host: &'r str) -> Resolved<'r>;
}

/// Resolves as the system is configured. Create it within a runtime.
pub struct SystemNames(Result<TokioResolver, String>);

impl SystemNames {
    /// Reads the system's current configuration.
    pub fn new() -> Self {
        Self(system_resolver())
    }
}

impl Default for SystemNames {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolve for SystemNames {
    fn resolve<'r>(&'r self, host: &'r str) -> Resolved<'r> {
        Box::pin(async move {
            let resolver = self.0.as_ref().map_err(|error| format!("no resolver: {error}"))?;
            let found = resolver.lookup_ip(host).await.map_err(|error| error.to_string())?;
            Ok(found.iter().collect())
        })
    }
}

/// A resolver that caches responses for their TTL. Call this within a runtime.
///
/// # Errors
/// The problem of the system's configuration.
pub fn system_resolver() -> Result<TokioResolver, String> {
    let resolver = TokioResolver::builder_tokio().and_then(ResolverBuilder::build);
    resolver.map_err(|error| error.to_string())
}
