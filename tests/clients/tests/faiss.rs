//! faiss, whose CUDA runtime is linked into it.
use clients::python;

#[test]
fn faiss_1_7_2() {
    let [bare, held] = python("use_faiss.py", "faiss-1.7.2");
    let round = "8 1200 [6100, 16130] none refused\n0\n[15701, 16130]\n";
    assert_eq!(bare, format!("1\n{round}{round}"));
    // On a card as small as the share it takes less at once, and its error quotes the runtime's. Which stream it names depends on the driver.
    let lines = |start: &str| held.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(held.lines().count(), 7, "{held}");
    assert_eq!([lines("1"), lines("0"), lines("[3072, 3072]")], [1, 2, 2], "{held}");
    let refused: Vec<&str> = held.lines().filter(|line| line.starts_with("5 512 [511, 3072] Error in ")).collect();
    assert_eq!(refused.len(), 2, "{held}");
    let words = [
        "StandardGpuResources: alloc fail type TemporaryMemoryBuffer",
        "size 536870912 bytes (cudaMalloc error out of memory [2])",
    ];
    assert!(refused.iter().all(|line| words.iter().all(|word| line.contains(word))), "{held}");
}
