//! A program that uses a GPU as it is told, for tests that run it with and without the interposer. Each argument is a step (`alloc 100`), and each
//! step answers one line of JSON: `{"step":"alloc 100","result":0,"values":[0],"text":""}`, where `result` is the driver's code. The step `stdin` goes on
//! with a step from each line of standard input.
//!
//! It knows nothing of the interposer, and judges nothing: what is right is the test's business.

mod driver;
mod steps;

use std::io::{BufRead, Write};
use steps::Guest;

/// What a step saw.
#[derive(Debug, Default)]
struct Answer {
    /// The driver's code; -1 where it lacks the function, -2 for a step that does not exist.
    result: i64,
    /// Indexes, sizes in bytes, counts: as the step has it.
    values: Vec<u64>,
    /// Names and lists: as the step has it.
    text: String,
}

impl Answer {
    fn code(result: i32) -> Self {
        Self { result: result.into(), ..Self::default() }
    }

    fn values(result: i32, values: &[u64]) -> Self {
        Self { result: result.into(), values: values.to_vec(), ..Self::default() }
    }

    fn text(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// Prints a step's line at once: the next step may end the process.
fn say(step: &str, answer: &Answer) {
    let line = format!(
        "{{\"step\":{step:?},\"result\":{},\"values\":{:?},\"text\":{:?}}}\n",
        answer.result, answer.values, answer.text
    );
    let mut out = std::io::stdout().lock();
    // A reader that is gone wants no more.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

fn main() {
    let mut guest = Guest::default();
    for step in std::env::args().skip(1) {
        if step == "stdin" {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                say(&line, &guest.step(&line));
            }
        } else {
            say(&step, &guest.step(&step));
        }
    }
}
