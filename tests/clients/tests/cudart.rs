//! A C program on CUDA's runtime library 10.2, which finds the driver's functions by `dlsym`.
use clients::{c_program, packages, source};
use interposer_tests::{Case, output};
use std::fs;

#[test]
fn cudart_10_2() {
    let case = Case::quota(3072);
    // PyTorch's wheel brings the library, under a name that is not its soname.
    let library = case.dir().join("libcudart.so.10.2");
    let from = packages("torch-1.12.1").join("torch/lib/libcudart-80664282.so.10.2");
    fs::copy(&from, &library).unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
    let program = c_program(case.dir(), &source("cudart.c"), &library);
    let path = format!("{}:{}", case.driver().display(), case.dir().display());
    let [bare, held] = [case.bare(&program), case.held(&program)]
        .map(|mut command| output(command.arg("2000").env("LD_LIBRARY_PATH", &path)));
    let rows = |total: &str, second: &str, taken: u32| {
        let row = |way: &str| format!("{way}: no error, {second}, {taken} taken, no error, no error, 0 taken\n");
        let ways = ["linear", "managed", "pitched", "array"].map(row).concat();
        format!("0: {total}, {total}\n{ways}no error, xxx, no error, no error\n")
    };
    assert_eq!(bare, rows("16130", "no error", 4000));
    assert_eq!(held, rows("3072", "out of memory", 2000));
}
