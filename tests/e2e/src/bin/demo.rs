//! The reference scenario in real containers, ending with a table of what was measured in them.
use anyhow::{Context, Result, ensure};
use e2e::lab::{Ask, Lab, Pod};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let real_driver = std::env::args().any(|argument| argument == "--real-driver");
    println!("starting a private containerd, and making images ...");
    let lab = Lab::start(real_driver)?;
    println!("runtime:  {}", lab.containerd.cri.version()?);
    println!("cdi-gen:  {}", lab.generate_cdi()?.0);

    println!("\n# isolated: a container that asks ALIYUN_COM_GPU_MEM_CONTAINER=3");
    let isolated = lab.run(&Ask::share("3"))?;
    show(&isolated)?;
    let (isolated_total, isolated_more) = measure(&isolated, "2900", true)?;
    drop(isolated);

    println!("\n# disabled: the same with CGPU_DISABLE=true");
    let disabled = lab.run(&Ask::share("3").disabled())?;
    show(&disabled)?;
    let (disabled_total, disabled_more) = measure(&disabled, "2900", false)?;
    drop(disabled);

    println!("\nmeasured in the containers:");
    println!("isolated: {isolated_total} MiB total");
    println!("isolated: 2900 MiB allocated, then 200 MiB more: {}", said(isolated_more));
    println!("disabled: {disabled_total} MiB total");
    println!("disabled: 2900 MiB allocated, then 200 MiB more: {}", said(disabled_more));
    ensure!(isolated_more == 2 && disabled_more == 0, "the quota does not hold as it should");
    Ok(())
}

fn show(container: &Pod<'_>) -> Result<()> {
    println!("$ nvidia-smi\n{}", container.output(&["nvidia-smi"])?.trim_end());
    Ok(())
}

/// The total that nvidia-smi tells, and the result of an allocation beyond a share of 3 GiB. NVML must tell the same total as nvidia-smi, and so must CUDA
/// of a share; of a whole card, a real driver keeps some back from CUDA.
fn measure(container: &Pod<'_>, first: &str, share: bool) -> Result<(u64, u64)> {
    let query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"];
    let total: u64 = container.output(&query)?.trim().parse().context("nvidia-smi printed no number")?;
    let answers = container.client(&["total", "nvml", &format!("alloc:{first}"), "alloc:200"])?;
    let cuda = answers[0].as_u64().context("CUDA told no total")?;
    let agree = if share { cuda == total } else { cuda <= total };
    ensure!(agree && answers[1][0] == total, "nvidia-smi, CUDA and NVML disagree: {total}, {answers:?}");
    ensure!(answers[2] == 0, "allocating {first} MiB failed with {}", answers[2]);
    Ok((total, answers[3].as_u64().context("no result")?))
}

fn said(result: u64) -> String {
    match result {
        0 => "allocated".to_owned(),
        2 => "CUDA_ERROR_OUT_OF_MEMORY (2)".to_owned(),
        other => format!("error {other}"),
    }
}
