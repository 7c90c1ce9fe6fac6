//! Runs the guest program under the interposer, on the simulated driver, and reads what it says.
//!
//! A fixture: whatever goes wrong here fails the test at once. It never changes the environment of the test's own process.
#![expect(clippy::missing_panics_doc, reason = "a fixture: every failure is the test's")]

mod case;
pub mod foreign;
mod live;
pub mod names;
pub mod parts;
pub mod python;

pub use case::{Case, REFERENCE, Share, answers, output};
pub use live::Live;

use serde::Deserialize;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: i64 = 2;

/// What a step of the guest saw.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Answer {
    /// The step.
    pub step: String,
    /// The driver's code.
    pub result: i64,
    /// As the step has it; sizes in bytes.
    pub values: Vec<u64>,
    /// As the step has it.
    pub text: String,
}

impl Answer {
    /// The values as whole MiB.
    #[must_use]
    pub fn mib(&self) -> Vec<u64> {
        self.values.iter().map(|bytes| bytes >> 20).collect()
    }

    fn read(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("the guest said {line:?}: {error}"))
    }
}

/// The results alone.
#[must_use]
pub fn results(answers: &[Answer]) -> Vec<i64> {
    answers.iter().map(|answer| answer.result).collect()
}

/// The last answer.
#[must_use]
pub fn last(answers: &[Answer]) -> &Answer {
    answers.last().expect("at least one step")
}
