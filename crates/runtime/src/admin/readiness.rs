//! Whether the process may be sent traffic.
//!
//! It must not know what makes a service ready.

use std::fmt;

/// A named check of readiness.
type Check = (&'static str, Box<dyn Fn() -> bool + Send + Sync>);

/// What operators are told beside that, if there is something.
type Remark = (&'static str, Box<dyn Fn() -> Option<String> + Send + Sync>);

/// Whether the process may be sent traffic: every check holds.
#[derive(Default)]
pub struct Readiness {
    checks: Vec<Check>,
    remarks: Vec<Remark>,
}

impl Readiness {
    /// Adds a check; `name` is what operators see while it does not hold.
    pub fn add(&mut self, name: &'static str, check: impl Fn() -> bool + Send + Sync + 'static) {
        self.checks.push((name, Box::new(check)));
    }

    /// Adds what is told while it says something: no reason to send traffic elsewhere.
    pub fn remark(
        &mut self,
        name: &'static str,
        remark: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        self.remarks.push((name, Box::new(remark)));
    }

    /// All that is remarked now, each with its name.
    pub fn remarks(&self) -> Vec<String> {
        let told = |(name, remark): &Remark| Some(format!("{name}: {}", remark()?));
        self.remarks.iter().filter_map(told).collect()
    }

    /// The names of the checks that do not hold.
    pub fn missing(&self) -> Vec<&'static str> {
        self.checks.iter().filter(|(_, check)| !check()).map(|(name, _)| *name).collect()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|(name, _)| name)).finish()
    }
}
