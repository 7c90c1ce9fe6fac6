//! A guest that does one step after the other, as a test asks: several of them are kept in step without any waiting for time to pass.
use crate::Answer;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running guest; it is ended when dropped.
#[derive(Debug)]
pub struct Live {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Live {
    /// Starts a guest by a command that runs it, to which nothing was said yet of what to do.
    ///
    /// # Panics
    /// Where it does not start.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.arg("stdin").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the guest starts");
        let from = BufReader::new(child.stdout.take().expect("it was asked for"));
        Self { to: child.stdin.take(), child, from }
    }

    /// The guest's pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks for a step, and does not wait for the answer.
    pub fn ask(&mut self, step: &str) {
        let to = self.to.as_mut().expect("the guest is not ended");
        writeln!(to, "{step}").expect("the guest listens");
    }

    /// The next answer.
    pub fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("text");
        assert!(!line.is_empty(), "the guest is gone: {:?}", self.child.wait());
        Answer::read(&line)
    }

    /// A step and its answer.
    pub fn step(&mut self, step: &str) -> Answer {
        self.ask(step);
        self.answer()
    }

    /// Several steps and their results.
    pub fn steps(&mut self, steps: &[&str]) -> Vec<i64> {
        steps.iter().map(|step| self.step(step).result).collect()
    }

    /// Ends the guest with SIGKILL, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("it is ours");
        let status = self.child.wait().expect("it is ours");
        assert_eq!(status.signal(), Some(9), "the guest ended before: {status}");
    }

    /// Lets the guest end by itself.
    pub fn end(mut self) {
        drop(self.to.take());
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "the guest ended with {status}");
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Ended already in all tests that pass.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
