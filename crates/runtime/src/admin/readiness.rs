//! Whether the process can take traffic. It must not know what makes a service ready.

use std::fmt;

type Check = (&'static str, Box<dyn Fn() -> bool + Send + Sync>);

/// A remark for operators. None if there is nothing to report.
type Remark = (&'static str, Box<dyn Fn() -> Option<String> + Send + Sync>);

/// Whether the process can take traffic: every check must hold.
#[derive(Default)]
pub struct Readiness {
    checks: Vec<Check>,
    remarks: Vec<Remark>,
}

impl Readiness {
    /// Adds a check; operators see `name` while it fails.
    pub fn add(&mut self, name: &'static str, check: impl Fn() -> bool + Send + Sync + 'static) {
        self.checks.push((name, Box::new(check)));
    }

    /// Adds a remark for operators, which does not affect readiness.
    pub fn remark(
        &mut self,
        name: &'static str,
        remark: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        self.remarks.push((name, Box::new(remark)));
    }

    /// Current remarks with their names.
    pub fn remarks(&self) -> Vec<String> {
        let told = |(name, remark): &Remark| Some(format!("{name}: {}", remark()?));
        self.remarks.iter().filter_map(told).collect()
    }

    /// Names of the failing checks.
    pub fn missing(&self) -> Vec<&'static str> {
        self.checks.iter().filter(|(_, check)| !check()).map(|(name, _)| *name).collect()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|(name, _)| name)).finish()
    }
}
