//! A signal that asks for the configuration to be read anew, in a process of its own: every watch
//! of one hears it.

use std::sync::mpsc::channel;
use std::time::Duration;

use faults::process::isolated;
use runtime::builder::Builder;
use runtime::config::reload::{Hangup, Reload, Trigger, WatchedFiles, load};
use runtime::config::{Section, load_tracked};
use runtime::control::Control;
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
        let (control, builder) = (Control::start().unwrap(), Builder::start().unwrap());
        let shutdown = Shutdown::new(Duration::ZERO);
        let hangup = Hangup::catch(&control).unwrap();
        // Without looks at files, so the signal alone can be the reason.
        let sources = load_tracked(&main, read).1;
        let watched = WatchedFiles { sources, interval: Duration::ZERO, retry_after: None };
        let (tell, reloads) = channel();
        let file = main.clone();
        let _reload = Reload::start(&builder, hangup, watched, &shutdown, move |trigger| {
            let (outcome, sources) = load(&trigger, &file, read);
            tell.send((trigger, outcome.unwrap().value)).unwrap();
            WatchedFiles { sources, interval: Duration::ZERO, retry_after: None }
        });
        std::fs::write(&main, "name = 'second'\n").unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
        let next = reloads.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(next, (Trigger::Signal, "second".to_owned()));
    });
}
