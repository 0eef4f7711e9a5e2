//! The switch by which tests plant a bug, to prove that they would catch it.

/// Defines `plant(Option<$bug>)`, which plants a bug on this thread, and `planted($bug) -> bool`,
/// which the code under test calls; both with the given visibility.
///
/// Without tests, the code under test has a `planted` of its own that returns false.
#[macro_export]
macro_rules! plantable {
    ($bug:ty, $plant:vis, $planted:vis) => {
        ::std::thread_local! {
            static PLANTED: ::std::cell::Cell<Option<$bug>> = const { ::std::cell::Cell::new(None) };
        }

        /// Plants a bug on this thread.
        $plant fn plant(bug: Option<$bug>) {
            PLANTED.set(bug);
        }

        $planted fn planted(bug: $bug) -> bool {
            PLANTED.get() == Some(bug)
        }
    };
}
