//! pycuda, which is linked to libcuda.
use clients::python;

#[test]
fn pycuda() {
    let [bare, held] = python("use_pycuda.py", "python3.9");
    let rows = |total: &str, free: u32, words: [&str; 3], during: u32, pool: &str| {
        let row = |(way, word): (&str, &str)| format!("{}{free}\n", format!("{way} {word} {during}\n").repeat(2));
        let ways = ["linear", "pitched", "managed"].into_iter().zip(words).map(row).collect::<String>();
        format!("{total} [{free}, {total}]\n{ways}True\n{pool}0 {free}\n")
    };
    let served = rows("16130", 15701, ["served"; 3], 11701, "pool served 12117\n2 12117\n");
    assert_eq!(bare, served);
    let refused =
        ["cuMemAlloc", "cuMemAllocPitch", "cuMemAllocManaged"].map(|call| format!("{call} failed: out of memory"));
    // The pool gives what it holds and does not use back to the driver before it gives up.
    let pool = "pool memory_pool::allocate failed: out of memory - failed to free memory for allocation 2048\n1 2048\n";
    assert_eq!(held, rows("3072", 3072, refused.each_ref().map(String::as_str), 1072, pool));
}
