//! Real files, and looks that are taken by hand. Signals are tests/it/sighup.rs's, in a process of its own.

use std::path::PathBuf;
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

    /// Puts a file in place as a careful tool does: whole, at once.
    fn write(&self, name: &str, text: &str) {
        let beside = self.path("beside");
        std::fs::write(&beside, text).expect("a temporary file");
        std::fs::rename(beside, self.path(name)).expect("a file of the same folder");
    }

    fn sources(&self) -> Sources {
        load_tracked(&self.path("vickrey.toml"), read).1
    }

    fn watched(&self) -> (Reload, Shutdown) {
        let shutdown = Shutdown::new(Duration::ZERO);
        (Reload::start(self.sources(), ms(1), &shutdown).expect("a watch"), shutdown)
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

/// The next load. No test of this process sends a signal, which every watch would hear.
fn next_change(files: &Files, reload: &Reload) -> Reloaded<Config> {
    let main = files.path("vickrey.toml");
    reload.next_load(&main, read, |_| ms(1)).expect("the process runs")
}

#[test]
fn a_change_counts_once_it_has_settled() {
    let files = Files::new();
    let mut settling = Settling::new(files.sources());
    let mut look = || settling.look(Sources::now);
    assert_eq!([look(), look()], [None, None]);
    // A folder half-written: something changes between every two looks.
    std::fs::write(files.path("d/b.toml"), "[[dsp]]\n").unwrap();
    assert_eq!(look(), None);
    std::fs::write(files.path("d/c.toml"), "[[dsp]]\nid = 'c").unwrap();
    assert_eq!(look(), None);
    std::fs::remove_file(files.path("d/c.toml")).unwrap();
    assert_eq!(look(), None);
    assert_eq!(look(), Some(files.path("d/*.toml")));
    assert_eq!([look(), look()], [None, None]);
    // What goes back before two looks agree never was.
    std::fs::write(files.path("d/c.toml"), "").unwrap();
    assert_eq!(look(), None);
    std::fs::remove_file(files.path("d/c.toml")).unwrap();
    assert_eq!([look(), look()], [None, None]);
    // A file that goes on growing is left alone.
    for length in 10..20 {
        std::fs::write(files.path("d/a.toml"), "#".repeat(length)).unwrap();
        assert_eq!(look(), None);
    }
    assert_eq!(look(), Some(files.path("d/a.toml")));
}

#[test]
fn every_kind_of_file_is_watched() {
    let files = Files::new();
    let (reload, _shutdown) = files.watched();
    let check = |changed: &str, want: (&str, &[&str])| {
        let next = next_change(&files, &reload);
        assert_eq!(next.trigger, Trigger::Changed(files.path(changed)));
        let (token, ids) = next.outcome.expect("a good configuration").value;
        assert_eq!((&*token, ids), (want.0, want.1.iter().map(|&id| id.to_owned()).collect()));
    };
    files.write("d/a.toml", "[[dsp]]\nid = 'b'\n");
    check("d/a.toml", ("first", &["b"]));
    files.write("d/new.toml", "[[dsp]]\nid = 'new'\n");
    check("d/*.toml", ("first", &["b", "new"]));
    files.write("key", "second");
    check("key", ("second", &["b", "new"]));
    // What came by a reload is watched like what was there.
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
    let reload = Reload::start(sources, ms(1), &Shutdown::new(Duration::ZERO)).unwrap();
    assert_eq!(next_change(&files, &reload).outcome.unwrap().value.0, "second");
}

#[test]
fn a_bad_configuration_is_told_and_its_repair_is_noticed() {
    let files = Files::new();
    let (reload, _shutdown) = files.watched();
    files.write("d/a.toml", "[[dsp]]\nid = ''\n[[dsp]]\nid = 5\n");
    assert_eq!(next_change(&files, &reload).outcome.unwrap_err().count(), 2);
    files.write("d/a.toml", "[[dsp]]\nid = 'good'\n");
    assert_eq!(next_change(&files, &reload).outcome.unwrap().value.1, ["good"]);
    // A file that cannot be opened is no change for ever.
    std::fs::remove_file(files.path("key")).unwrap();
    std::fs::create_dir(files.path("key")).unwrap();
    assert_eq!(next_change(&files, &reload).outcome.unwrap_err().count(), 1);
    let mut settling = Settling::new(files.sources());
    let mut look = || settling.look(Sources::now);
    assert_eq!([look(), look(), look()], [None, None, None]);
    // What was no file is watched all the same.
    std::fs::remove_dir(files.path("key")).unwrap();
    files.write("key", "repaired");
    assert_eq!([look(), look()], [None, Some(files.path("key"))]);
}

/// Rung twice while it is not waited for, it is one reason or two, and none is lost.
#[test]
fn an_operator_asks() {
    let files = Files::new();
    let shutdown = Shutdown::new(Duration::from_secs(3600));
    let reload = Reload::start(files.sources(), Duration::ZERO, &shutdown).unwrap();
    reload.bell().ring();
    reload.bell().ring();
    assert_eq!(reload.wait(), Some(Trigger::Asked));
    reload.bell().ring();
    assert_eq!(reload.wait(), Some(Trigger::Asked));
}

#[test]
fn the_end_of_the_process_ends_the_watch() {
    let files = Files::new();
    let (reload, shutdown) = files.watched();
    shutdown.begin();
    assert_eq!(reload.wait(), None);
}

/// A log that can be read.
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
