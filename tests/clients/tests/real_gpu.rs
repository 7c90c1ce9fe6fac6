//! Current clients, whose CUDA runtime (11.2 and later) refuses a driver that is not the vendor's: on the machine's own GPU, and skipped where there is none.
use clients::gpu::Gpu;
use clients::{c_program, packages, python_on, source};
use interposer_tests::{output, parts};
use libtest_mimic::{Arguments, Trial};
use std::fs;

/// A name, the oldest driver that the client accepts, and the test.
type Test = (&'static str, u32, fn(&Gpu));

const TESTS: [Test; 2] = [("cudart_13", 580, cudart_13), ("torch_2_10_0", 525, torch_2_10_0)];

fn main() {
    let trials = TESTS.into_iter().map(|(name, driver, test)| match Gpu::find(driver) {
        Ok(gpu) => Trial::test(name, move || {
            test(&gpu);
            Ok(())
        }),
        Err(words) => {
            eprintln!("{name} is skipped: {words}");
            Trial::test(name, || Ok(())).with_ignored_flag(true)
        }
    });
    let mut arguments = Arguments::from_args();
    // They share a GPU.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn cudart_13(gpu: &Gpu) {
    let case = gpu.case();
    let library = case.dir().join("libcudart.so.13");
    let from = parts::cache().join("guest-root/usr/lib/python3/dist-packages/nvidia/cu13/lib/libcudart.so.13");
    fs::copy(&from, &library).unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
    let program = c_program(case.dir(), &source("cudart.c"), &library);
    // Without the simulated driver's folder.
    let [bare, held] = [case.bare(&program), case.held(&program)]
        .map(|mut command| output(command.arg("2000").env("LD_LIBRARY_PATH", case.dir())));
    let ways = ["linear", "managed", "pitched", "array"];
    for way in ways {
        assert!(bare.contains(&format!("{way}: no error, no error, ")), "{bare}");
    }
    assert!(held.starts_with("0: 3072, 3072\n"), "{held}");
    for way in ways {
        let row = held.lines().find(|line| line.starts_with(way)).unwrap_or_default();
        assert!(row.starts_with(&format!("{way}: no error, out of memory, ")), "{held}");
        assert!(row.ends_with(" taken, no error, no error, 0 taken"), "{held}");
    }
    for said in [&bare, &held] {
        assert!(said.ends_with("no error, xxx, no error, no error\n"), "{said}");
    }
}

fn torch_2_10_0(gpu: &Gpu) {
    let [bare, held] = python_on(gpu, "use_torch.py", &packages("torch-2.10.0"));
    for way in ["second served ", "from the cache served ", "instead of the cache served "] {
        assert!(bare.contains(way), "{bare}");
    }
    let lines = [
        "12.8 1 3072",
        "start - 3072 3072 0 0",
        "dropped - 1072 3072 0 2000",
        "from the cache served 1072 3072 2000 2000",
        "instead of the cache served 172 3072 2900 2900",
        "emptied - 3072 3072 0 0",
        "True True",
    ];
    for line in lines {
        assert!(held.lines().any(|said| said == line), "no line {line:?} in {held}");
    }
    assert!(held.contains("second CUDA out of memory. Tried to allocate 1.95 GiB."), "{held}");
    assert!(held.contains(" has a total capacity of 3.00 GiB of which 1.05 GiB is free."), "{held}");
}
