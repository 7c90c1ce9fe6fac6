//! PyTorch's caching allocator, on cudart 10.2.
use clients::python;

#[test]
fn torch_1_12_1() {
    let [bare, held] = python("use_torch.py", "torch-1.12.1");
    let served = "10.2 1 16130\n\
        start - 15701 16130 0 0\n\
        second served 11701 16130 4000 4000\n\
        dropped - 11701 16130 0 4000\n\
        from the cache served 11701 16130 2000 4000\n\
        instead of the cache served 1701 16130 14000 14000\n\
        emptied - 15701 16130 0 0\n\
        0 1\n\
        True True\n\
        True\n";
    assert_eq!(bare, served);
    // The share's total and what is free of it are in the words for people.
    let words = "CUDA out of memory. Tried to allocate 1.95 GiB (GPU 0; 3.00 GiB total capacity; 1.95 GiB already allocated; 1.05 GiB free; 1.95 GiB \
        reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See \
        documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
    let refused = format!(
        "10.2 1 3072\n\
        start - 3072 3072 0 0\n\
        second {words} 1072 3072 2000 2000\n\
        dropped - 1072 3072 0 2000\n\
        from the cache served 1072 3072 2000 2000\n\
        instead of the cache served 172 3072 2900 2900\n\
        emptied - 3072 3072 0 0\n\
        1 2\n\
        True True\n\
        True\n"
    );
    assert_eq!(held, refused);
}
