//! Whether the process may be sent traffic.
//!
//! It must not know what makes a service ready.

use std::fmt;

/// A named check of readiness.
type Check = (&'static str, Box<dyn Fn() -> bool + Send + Sync>);

/// Whether the process may be sent traffic: every check holds.
#[derive(Default)]
pub struct Readiness(Vec<Check>);

impl Readiness {
    /// Adds a check; `name` is what operators see while it does not hold.
    pub fn add(&mut self, name: &'static str, check: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.push((name, Box::new(check)));
    }

    /// The names of the checks that do not hold.
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.iter().filter(|(_, check)| !check()).map(|(name, _)| *name).collect()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
