//! Real files, polled by hand. Tests of signals are in tests/it/sighup.rs, in their own process.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use super::*;
use crate::config::{Optional, ms};

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a temporary folder"));
        std::fs::create_dir(files.path("d")).expect("a folder in it");
        files.write("vickrey.toml", "include = ['d/*.toml']\ntoken = 'file:key'\n");
        files.write("key", "first");
        files.write("d/a.toml", "[[dsp]]\nid = 'a'\n");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file atomically, by renaming it into place.
    fn write(&self, name: &str, text: &str) {
        let beside = self.path("beside");
        std::fs::write(&beside, text).expect("a temporary file");
        std::fs::rename(beside, self.path(name)).expect("a file of the same folder");
    }

    fn sources(&self) -> Sources {
        load_tracked(&self.path("vickrey.toml"), read).1
    }

    /// Reloads on every trigger, with `sources` as the first state.
    fn follow(&self, sources: Sources, interval: Duration) -> Followed {
        let threads = (Control::start().expect("a thread"), Builder::start().expect("a thread"));
        let shutdown = Shutdown::new(Duration::ZERO);
        let (tell, reloads) = channel();
        let main = self.path("vickrey.toml");
        let hangup = Hangup::catch(&threads.0).expect("a signal handler");
        let watched = WatchedFiles { sources, interval, retry_after: None };
        let reload = Reload::start(&threads.1, hangup, watched, &shutdown, move |trigger| {
            let (outcome, sources) = load(&trigger, &main, read);
            // The test may have ended.
            let _ended = tell.send((trigger, outcome));
            WatchedFiles { sources, interval, retry_after: None }
        });
        Followed { reload, reloads, shutdown, _threads: threads }
    }

    fn watched(&self) -> Followed {
        self.follow(self.sources(), ms(1))
    }
}

struct Followed {
    reload: Reload,
    reloads: Receiver<(Trigger, Result<Loaded<Config>, ConfigProblems>)>,
    shutdown: Shutdown,
    _threads: (Control, Builder),
}

impl Followed {
    /// The next load. No test of this process sends a signal, which would reach every watch.
    fn next(&self) -> (Trigger, Result<Loaded<Config>, ConfigProblems>) {
        self.reloads.recv_timeout(Duration::from_secs(20)).expect("there is a reason")
    }
}

/// The token, and the ids of DSPs.
type Config = (String, Vec<String>);

fn read(s: &mut Section<'_>) -> Config {
    s.includes();
    let token = s.secret("token", Optional("file:key"), "Doc.");
    let ids = s.tables("dsp", "Doc.", |s| s.text("id", "none", "Doc."));
    (token.map_or_else(String::new, |token| token.expose().to_owned()), ids)
}

#[test]
fn a_change_counts_once_it_has_settled() {
    let files = Files::new();
    let mut settling = Settling::new(files.sources());
    let mut poll = || settling.poll(Sources::now);
    assert_eq!([poll(), poll()], [None, None]);
    // A folder being written: something changes between every two polls.
    std::fs::write(files.path("d/b.toml"), "[[dsp]]\n").unwrap();
    assert_eq!(poll(), None);
    std::fs::write(files.path("d/c.toml"), "[[dsp]]\nid = 'c").unwrap();
    assert_eq!(poll(), None);
    std::fs::remove_file(files.path("d/c.toml")).unwrap();
    assert_eq!(poll(), None);
    assert_eq!(poll(), Some(files.path("d/*.toml")));
    assert_eq!([poll(), poll()], [None, None]);
    // A change reverted before two polls agree does not count.
    std::fs::write(files.path("d/c.toml"), "").unwrap();
    assert_eq!(poll(), None);
    std::fs::remove_file(files.path("d/c.toml")).unwrap();
    assert_eq!([poll(), poll()], [None, None]);
    // A growing file is left alone.
    for length in 10..20 {
        std::fs::write(files.path("d/a.toml"), "#".repeat(length)).unwrap();
        assert_eq!(poll(), None);
    }
    assert_eq!(poll(), Some(files.path("d/a.toml")));
}

#[test]
fn every_kind_of_file_is_watched() {
    let files = Files::new();
    let followed = files.watched();
    let check = |changed: &str, want: (&str, &[&str])| {
        let (trigger, outcome) = followed.next();
        assert_eq!(trigger, Trigger::Changed(files.path(changed)));
        let (token, ids) = outcome.expect("a good configuration").value;
        assert_eq!((&*token, ids), (want.0, want.1.iter().map(|&id| id.to_owned()).collect()));
    };
    files.write("d/a.toml", "[[dsp]]\nid = 'b'\n");
    check("d/a.toml", ("first", &["b"]));
    files.write("d/new.toml", "[[dsp]]\nid = 'new'\n");
    check("d/*.toml", ("first", &["b", "new"]));
    files.write("key", "second");
    check("key", ("second", &["b", "new"]));
    // A file added by a reload is watched like the others.
    files.write("d/new.toml", "[[dsp]]\nid = 'newer'\n");
    check("d/new.toml", ("second", &["b", "newer"]));
    files.write("vickrey.toml", "token = 'third'\n");
    check("vickrey.toml", ("third", &[]));
}

#[test]
fn what_changed_before_the_watch_began_is_noticed() {
    let files = Files::new();
    let sources = files.sources();
    files.write("key", "second");
    let followed = files.follow(sources, ms(1));
    assert_eq!(followed.next().1.unwrap().value.0, "second");
}

#[test]
fn a_bad_configuration_is_told_and_its_repair_is_noticed() {
    let files = Files::new();
    let followed = files.watched();
    files.write("d/a.toml", "[[dsp]]\nid = ''\n[[dsp]]\nid = 5\n");
    assert_eq!(followed.next().1.unwrap_err().count(), 2);
    files.write("d/a.toml", "[[dsp]]\nid = 'good'\n");
    assert_eq!(followed.next().1.unwrap().value.1, ["good"]);
    // An unopenable file is one change, not a change at every poll.
    std::fs::remove_file(files.path("key")).unwrap();
    std::fs::create_dir(files.path("key")).unwrap();
    assert_eq!(followed.next().1.unwrap_err().count(), 1);
    let mut settling = Settling::new(files.sources());
    let mut poll = || settling.poll(Sources::now);
    assert_eq!([poll(), poll(), poll()], [None, None, None]);
    // A path that was no file is watched too.
    std::fs::remove_dir(files.path("key")).unwrap();
    files.write("key", "repaired");
    assert_eq!([poll(), poll()], [None, Some(files.path("key"))]);
}

#[test]
fn an_operator_asks() {
    let files = Files::new();
    let followed = files.follow(files.sources(), Duration::ZERO);
    for _ in 0..2 {
        followed.reload.handle().request();
        assert_eq!(followed.next().0, Trigger::Requested);
    }
}

#[test]
fn files_are_read_again_where_that_was_asked_for() {
    let files = Files::new();
    let threads = (Control::start().expect("a thread"), Builder::start().expect("a thread"));
    let hangup = Hangup::catch(&threads.0).expect("a signal handler");
    let (sources, interval) = (files.sources(), Duration::ZERO);
    let watched =
        move |retry_after| WatchedFiles { sources: sources.clone(), interval, retry_after };
    let (tell, reloads) = channel();
    let first = watched(Some(ms(1)));
    let _reload = Reload::start(&threads.1, hangup, first, &Shutdown::new(ms(0)), move |trigger| {
        tell.send(trigger).expect("the test listens");
        watched(None)
    });
    assert_eq!(reloads.recv_timeout(Duration::from_secs(20)), Ok(Trigger::Retry));
    assert!(reloads.try_recv().is_err(), "once");
}

#[test]
fn the_end_of_the_process_ends_the_watch() {
    let files = Files::new();
    let followed = files.watched();
    followed.shutdown.begin();
    files.write("key", "second");
    followed.reload.handle().request();
    let Followed { reload, reloads, .. } = followed;
    drop(reload);
    assert!(reloads.recv().is_err(), "nothing is read any more");
}

/// A log that can be read back.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn all_problems_are_logged() {
    let files = Files::new();
    files.write("d/a.toml", "[[dsp]]\nid = ''\nx = 1\n");
    let problems = load_tracked(&files.path("vickrey.toml"), read).0.unwrap_err();
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || log_problems(&problems));
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.matches(" WARN ").count(), 3, "{text}");
    for want in [
        "refused, the old configuration stays in force problems=2",
        "d/a.toml line 2: dsp[0].id = '': must not be empty",
        "d/a.toml line 3: dsp[0].x = 1: unknown key, remove it",
    ] {
        assert!(text.contains(want), "no `{want}` in:\n{text}");
    }
}
