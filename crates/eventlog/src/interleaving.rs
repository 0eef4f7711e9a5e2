//! Points at which tests run another thread's work. They cost nothing in production.

/// A point at which a test may run another thread's work.
#[cfg(test)]
pub(crate) fn meanwhile() {
    if let Some(happens) = MEANWHILE.take() {
        happens();
    }
}

#[cfg(not(test))]
pub(crate) const fn meanwhile() {}

/// Runs `what` the next time this thread reaches such a point.
#[cfg(test)]
pub(crate) fn happen(what: impl FnOnce() + 'static) {
    MEANWHILE.set(Some(Box::new(what)));
}

#[cfg(test)]
thread_local! {
    static MEANWHILE: std::cell::Cell<Option<Box<dyn FnOnce()>>> = const { std::cell::Cell::new(None) };
}
