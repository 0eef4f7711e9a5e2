//! The switch by which tests plant a mistake, to see that they would find it.

/// Makes `plant(Option<$bug>)`, which plants a mistake for what runs on this thread, and
/// `planted($bug) -> bool`, which the code asks that would make it, as visible as is said.
///
/// Where there are no tests that code asks a function of its own that says no.
#[macro_export]
macro_rules! plantable {
    ($bug:ty, $plant:vis, $planted:vis) => {
        ::std::thread_local! {
            static PLANTED: ::std::cell::Cell<Option<$bug>> = const { ::std::cell::Cell::new(None) };
        }

        /// Plants a mistake for what runs on this thread.
        $plant fn plant(bug: Option<$bug>) {
            PLANTED.set(bug);
        }

        $planted fn planted(bug: $bug) -> bool {
            PLANTED.get() == Some(bug)
        }
    };
}
