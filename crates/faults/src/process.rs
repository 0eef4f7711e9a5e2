//! Processes that are killed: a test starts the program that it is in once more, at a test that is
//! ignored otherwise and goes on until its end comes.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Sets how often processes are killed.
const KILLS: &str = "KILLS";
/// The signal that nobody can do anything about.
const SIGKILL: i32 = 9;

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
mod tests {
    use std::io::{Write as _, stdout};

    use super::*;

    const FIRST: &str = "FAULTS_TEST_FIRST";

    #[test]
    fn what_a_killed_process_said_is_heard() {
        let mut heard: Vec<u64> = Vec::new();
        let once = Once::more("process::tests::child", &[(FIRST, OsStr::new("7"))]);
        once.kill_after(3, |line| {
            // What runs the test has begun its first line.
            let Some((_, number)) = line.split_once("said ") else { return false };
            heard.push(number.parse().unwrap());
            true
        });
        assert!(heard.len() >= 3, "{heard:?}");
        let want: Vec<u64> = (7..).take(heard.len()).collect();
        assert_eq!(heard, want, "from where it was told, each once, with none left out");
    }

    #[test]
    #[should_panic = "it has ended by itself"]
    fn a_process_that_ends_by_itself_was_not_killed() {
        Once::more("process::tests::nobody", &[]).kill_after(1_000, |_| true);
    }

    #[test]
    #[should_panic = "it has ended by itself"]
    fn nor_was_one_that_had_ended() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        kill(&mut child);
    }

    #[test]
    #[ignore = "speaks until it is killed: the first test here starts it"]
    fn child() {
        let first: u64 = env::var(FIRST).unwrap().parse().unwrap();
        for number in first.. {
            writeln!(stdout(), "said {number}").unwrap();
        }
    }
}
