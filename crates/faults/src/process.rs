//! Tests in processes of their own: those that need one to themselves, and those that start the program
//! that they are in once more, at a test that is ignored otherwise, and kill it.

use std::any::type_name;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

/// Sets how often processes are killed.
const KILLS: &str = "KILLS";
/// The signal that nobody can do anything about.
const SIGKILL: i32 = 9;

/// Set in a process that runs one test: the name of that test.
const ISOLATED: &str = "ISOLATED_TEST";

/// Runs a test in a process of its own: one that counts what the whole process allocates, or changes
/// what holds for all of it. The test's function calls this with its whole body.
///
/// # Panics
/// If the test fails in that process, or is not what runs there.
#[expect(clippy::print_stdout, reason = "what the test says, as if it had run here")]
pub fn isolated<F: FnOnce()>(test: F) {
    // The closure is named after the function that it is in: `it::direct::bidding::{{closure}}`.
    let (path, _) = type_name::<F>().split_once("::{{closure}}").expect("a closure of a test");
    let (_, name) = path.split_once("::").expect("a test is in a crate");
    if env::var(ISOLATED).is_ok_and(|isolated| isolated == name) {
        await_main_thread();
        return test();
    }
    let mut command = Command::new(env::current_exe().expect("it runs"));
    command.args(["--exact", name, "--nocapture"]).env(ISOLATED, name).stdin(Stdio::null());
    let output = command.output().expect("it runs once more");
    let said = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(" 1 passed;"), "{said}{problem}");
    print!("{said}");
}

/// Waits until the main thread sleeps: it allocates what it needs to wait for the test, which must not
/// count as the test's.
fn await_main_thread() {
    let stat = format!("/proc/self/task/{}/stat", std::process::id());
    let is_main = || thread::current().name() == Some("main");
    while !is_main() && !fs::read_to_string(&stat).expect("procfs").contains(") S ") {
        thread::yield_now();
    }
}

/// How often a test kills: as the variable `KILLS` says, or so often.
pub fn kills(usual: u64) -> u64 {
    let told = env::var(KILLS).ok();
    told.map_or(usual, |told| told.parse().expect("KILLS is a number"))
}

/// Kills a process that has not ended by itself.
pub fn kill(child: &mut Child) {
    child.kill().expect("it is ours");
    let status = child.wait().expect("it is ours");
    assert_eq!(status.signal(), Some(SIGKILL), "it has ended by itself: {status}");
}

/// A process that runs a test of this program, and what it says. Dropped, it is killed.
#[derive(Debug)]
pub struct Once {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Once {
    /// Starts the test of this name, which is ignored otherwise, with these variables.
    pub fn more(test: &str, variables: &[(&str, &OsStr)]) -> Self {
        let mut child = Command::new(env::current_exe().expect("it runs"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs once more");
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, said }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next whole line that it says, without its end; none once it has ended.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it is text");
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    /// Waits until it says a line that ends so.
    pub fn await_line(&mut self, end: &str) {
        while !self.line().expect("it has ended by itself").ends_with(end) {}
    }

    /// Kills it once `counts` was true of so many lines. What it had said until then is heard, even if
    /// it is read after its end.
    pub fn kill_after(mut self, many: u64, mut counts: impl FnMut(&str) -> bool) {
        let mut heard = 0;
        while heard < many {
            let line = self.line().expect("it has ended by itself");
            heard += u64::from(counts(&line));
        }
        kill(&mut self.child);
        while let Some(line) = self.line() {
            counts(&line);
        }
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        // It may have ended already. Until its end is known it holds what it has taken.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

#[cfg(test)]
mod tests;
