//! Reads flags, runs, and turns the end into an exit code. See [`cdi_gen::exit`] for the codes.
use cdi_gen::flags::{Command, Flags};
use cdi_gen::run;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Generate(flags) = Flags::parse().command;
    match run::generate(flags) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("cdi-gen: {failure}");
            failure.code()
        }
    }
}
