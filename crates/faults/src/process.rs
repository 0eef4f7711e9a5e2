//! Tests that need processes: some run in a process of their own; others start the test binary
//! again, at a test that is otherwise ignored, and kill it.

use std::any::type_name;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

/// The variable that sets how often processes are killed.
const KILLS: &str = "KILLS";
/// The signal that a process cannot handle.
const SIGKILL: i32 = 9;

/// Names the test that an isolated process runs.
const ISOLATED: &str = "ISOLATED_TEST";

/// Runs a test in a process of its own, because it counts the allocations of the whole process or
/// changes global state. The test's function calls this with its whole body.
///
/// # Panics
/// If the test fails in that process, or is not what runs there.
#[expect(clippy::print_stdout, reason = "what the test says, as if it had run here")]
pub fn isolated<F: FnOnce()>(test: F) {
    // The closure's type name contains its function: `it::direct::bidding::{{closure}}`.
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

/// Waits until the main thread sleeps. What it allocates to wait for the test must not count as the
/// test's.
fn await_main_thread() {
    let stat = format!("/proc/self/task/{}/stat", std::process::id());
    let is_main = || thread::current().name() == Some("main");
    while !is_main() && !fs::read_to_string(&stat).expect("procfs").contains(") S ") {
        thread::yield_now();
    }
}

/// Number of kills: the variable `KILLS`, or `usual`.
pub fn kills(usual: u64) -> u64 {
    let told = env::var(KILLS).ok();
    told.map_or(usual, |told| told.parse().expect("KILLS is a number"))
}

/// Kills a process that is still running.
pub fn kill(child: &mut Child) {
    child.kill().expect("it is ours");
    let status = child.wait().expect("it is ours");
    assert_eq!(status.signal(), Some(SIGKILL), "it has ended by itself: {status}");
}

/// A process that runs a test of this binary, and its output. Killed on drop.
#[derive(Debug)]
pub struct Once {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Once {
    /// Starts the otherwise ignored test of this name, with these environment variables.
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

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next whole line, without its end. None once the process has ended.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it is text");
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    /// Waits for a line with this end.
    pub fn await_line(&mut self, end: &str) {
        while !self.line().expect("it has ended by itself").ends_with(end) {}
    }

    /// Kills it once `counts` was true for `many` lines. Output from before the kill is read even
    /// after it.
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
        // It may have ended already. Until it is waited for, it holds its resources.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

#[cfg(test)]
mod tests;
