//! Reads flags, runs, and turns the end into an exit code. See [`cdi_gen::exit`] for the codes.
use cdi_gen::exit::Failure;
use cdi_gen::flags::{Command, Flags};
use cdi_gen::{check, files, run, watch};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

fn main() -> ExitCode {
    let ended = match Flags::parse().command {
        Command::Generate(flags) => run::generate(flags),
        Command::Check(flags) => check::check(flags),
        Command::Validate(flags) => files::validate(&flags),
        Command::List(flags) => files::list(&flags),
        Command::Status(flags) => files::status(flags),
        Command::Watch(flags) => watch::watch(flags),
        Command::Transform(flags) => files::transform(&flags),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Flags::command(), "cdi-gen", &mut std::io::stdout());
            Ok(())
        }
        Command::Man => man(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::Last(_)) {
                eprintln!("cdi-gen: {failure}");
            }
            ExitCode::from(failure.code())
        }
    }
}

/// One page: the program, then each command with its flags.
fn man() -> Result<(), Failure> {
    let mut page = Vec::new();
    let render = |page: &mut Vec<u8>| -> std::io::Result<()> {
        let mut command = Flags::command();
        command.build();
        let whole = clap_mangen::Man::new(command.clone());
        whole.render_title(page)?;
        whole.render_name_section(page)?;
        whole.render_synopsis_section(page)?;
        whole.render_subcommands_section(page)?;
        for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
            let man = clap_mangen::Man::new(part.clone());
            man.render_synopsis_section(page)?;
            man.render_options_section(page)?;
        }
        whole.render_extra_section(page)
    };
    let failed = |source| Failure::Write(cdi::WriteError::Io { step: "print", path: "the manual page".into(), source });
    render(&mut page).map_err(failed)?;
    std::io::Write::write_all(&mut std::io::stdout(), &page).map_err(failed)
}
