//! A signal that asks for the configuration to be read anew, in a process of its own: every watch
//! of one hears it.

use std::time::Duration;

use faults::process::isolated;
use runtime::config::{Section, load_tracked};
use runtime::reload::{Reload, Trigger};
use runtime::shutdown::Shutdown;
use rustix::process::{Signal, getpid, kill_process};

fn read(s: &mut Section<'_>) -> String {
    s.text("name", "none", "Doc.")
}

#[test]
fn sighup_reads_anew() {
    isolated(|| {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("vickrey.toml");
        std::fs::write(&main, "name = 'first'\n").unwrap();
        let shutdown = Shutdown::new(Duration::ZERO);
        let sources = load_tracked(&main, read).1;
        // Without looks at files, so the signal alone can be the reason.
        let reload = Reload::start(sources, Duration::ZERO, &shutdown).unwrap();
        std::fs::write(&main, "name = 'second'\n").unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
        let next = reload.next_load(&main, read, |_| Duration::ZERO).unwrap();
        assert_eq!(next.trigger, Trigger::Signal);
        assert_eq!(next.outcome.unwrap().value, "second");
        shutdown.begin();
        assert_eq!(reload.wait(), None);
    });
}
