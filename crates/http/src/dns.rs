//! Names of hosts, looked up by the system's configuration.

use std::net::IpAddr;
use std::pin::Pin;

use hickory_resolver::{ResolverBuilder, TokioResolver};

/// Addresses of a host, or what the resolver said.
pub type Resolved<'r> = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + Send + 'r>>;

/// Looks names up.
pub trait Resolve: Send + Sync {
    /// The addresses of `host`, which is no address itself.
    ///
    /// # Errors
    /// What the resolver said.
    fn resolve<'r>(&'r self, host: &'r str) -> Resolved<'r>;
}

/// Looks names up as the system is configured to. To be made within a runtime.
pub struct SystemNames(Result<TokioResolver, String>);

impl SystemNames {
    /// By what the system's configuration says now.
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

/// A resolver that caches by the TTL of answers. To be made within a runtime.
///
/// # Errors
/// What is wrong with the system's configuration.
pub fn system_resolver() -> Result<TokioResolver, String> {
    let resolver = TokioResolver::builder_tokio().and_then(ResolverBuilder::build);
    resolver.map_err(|error| error.to_string())
}
