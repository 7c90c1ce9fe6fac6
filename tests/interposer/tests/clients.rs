//! Clients that we did not write, and a C program that is linked to libcuda: each gets no more than the quota, is told of the quota, and can use again what
//! it has freed. Python's other clients are in `python.rs`, NVIDIA's own in `nvidia_smi.rs`.
use interposer_tests::{Case, output, parts, python};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// What a Python program prints without and with the interposer, where the quota is 3,072 of 16,130 MiB.
fn both(code: &str) -> [String; 2] {
    let case = Case::quota(3072);
    let arguments = ["-W", "ignore", "-c", code];
    [python::bare(&case), python::held(&case)].map(|mut command| output(command.args(arguments)).trim().to_owned())
}

/// `ok` unpacks an answer of cuda-bindings, `mib` says what is free and what there is.
const DRIVER: &str = "from cuda.bindings import driver as d\n\
    def ok(r):\n\
    \x20   assert r[0] == 0, r\n\
    \x20   return r[1] if len(r) == 2 else r[1:]\n\
    def mib():\n\
    \x20   return [int(x) >> 20 for x in ok(d.cuMemGetInfo())]\n\
    ok(d.cuInit(0)); dev = ok(d.cuDeviceGet(0)); ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(dev))))\n";

#[test]
fn cuda_bindings_every_way_to_allocate() {
    let code = [
        DRIVER,
        "G = 1 << 30\n\
        p = d.CUmemAllocationProp(); p.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED\n\
        p.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE; p.location.id = 0\n\
        ways = [\n\
        \x20   (lambda n: d.cuMemAlloc(n), d.cuMemFree),\n\
        \x20   (lambda n: d.cuMemAllocManaged(n, 1), d.cuMemFree),\n\
        \x20   (lambda n: d.cuMemAllocPitch(1 << 20, n >> 20, 16)[:2], d.cuMemFree),\n\
        \x20   (lambda n: d.cuMemAllocAsync(n, 0), lambda a: d.cuMemFreeAsync(a, 0)),\n\
        \x20   (lambda n: d.cuMemAllocAsync(n, d.CU_STREAM_PER_THREAD), lambda a: d.cuMemFreeAsync(a, 0)),\n\
        \x20   (lambda n: d.cuMemAllocFromPoolAsync(n, ok(d.cuDeviceGetDefaultMemPool(dev)), 0), d.cuMemFree),\n\
        \x20   (lambda n: d.cuMemCreate(n, p, 0), d.cuMemRelease)]\n\
        print(ok(d.cuDeviceTotalMem(dev)) >> 20)\n\
        for allocate, free in ways:\n\
        \x20   a = ok(allocate(2 * G)); e, b = allocate(2 * G)\n\
        \x20   left = mib()\n\
        \x20   for x in [a] + [b] * (int(e) == 0): ok(free(x))\n\
        \x20   ok(d.cuCtxSynchronize()); ok(free(ok(allocate(2 * G)))); ok(d.cuCtxSynchronize())\n\
        \x20   print(int(e), *left)\n\
        print(*mib())\n",
    ]
    .concat();
    let [bare, held] = both(&code);
    let rows = |total: &str, row: &str, end: &str| format!("{total}\n{}{end}", format!("{row}\n").repeat(7));
    assert_eq!(bare, rows("16130", "0 11605 16130", "15701 16130"));
    assert_eq!(held, rows("3072", "2 1024 3072", "3072 3072"));
}

#[test]
fn cuda_bindings_nvml() {
    let code = [
        DRIVER,
        "from cuda.bindings import nvml as n\n\
        ok(d.cuMemAlloc(1000 << 20)); n.init_v2(); h = n.device_get_handle_by_index_v2(0)\n\
        m = n.device_get_memory_info_v2(h); print(m.total >> 20, m.free >> 20, m.used >> 20)\n",
    ]
    .concat();
    assert_eq!(both(&code), ["16130 14701 1429", "3072 2072 1000"]);
}

#[test]
fn cuda_core_virtual_memory() {
    let code = [
        DRIVER,
        "from cuda.core import Device, VirtualMemoryResource, LegacyPinnedMemoryResource, system\n\
        D = Device(0); D.set_current(); m = VirtualMemoryResource(D); kept = []\n\
        def ask(n):\n\
        \x20   try: kept.append(m.allocate(n << 20, stream=D.default_stream)); return 'served'\n\
        \x20   except Exception as e: return 'refused' if 'CUDA_ERROR_OUT_OF_MEMORY' in str(e) else e\n\
        print(ask(2000), ask(2000), ask(1000), LegacyPinnedMemoryResource().allocate(4000 << 20).size >> 20)\n\
        i = system.Device(index=0).memory_info; print(*mib(), i.total >> 20, i.free >> 20, i.used >> 20)\n",
    ]
    .concat();
    let [bare, held] = both(&code);
    assert_eq!(bare, "served served served 4000\n10701 16130 16130 10701 5429");
    assert_eq!(held, "served refused served 4000\n72 3072 3072 72 3000");
}

#[test]
fn cuda_core_memory_of_pools() {
    let code = [
        DRIVER,
        "from cuda.core import Device, DeviceMemoryResource\n\
        D = Device(0); D.set_current(); s = D.create_stream(); kept = []\n\
        def ask(m, n):\n\
        \x20   try: kept.append(m.allocate(n << 20, stream=s)); return 'served'\n\
        \x20   except Exception as e: return 'refused' if 'CUDA_ERROR_OUT_OF_MEMORY' in str(e) else e\n\
        print(ask(D, 2000), ask(D, 2000), ask(DeviceMemoryResource(D), 1000), ask(D, 100))\n\
        kept.clear(); s.sync(); print(ask(D, 2000))\n",
    ]
    .concat();
    let [bare, held] = both(&code);
    assert_eq!(bare, "served served served served\nserved");
    assert_eq!(held, "served refused served refused\nserved");
}

#[test]
fn numba_uses_again_what_it_has_dropped() {
    let code = "import numpy as np\n\
        from numba import cuda\n\
        def ask(make, n):\n\
        \x20   try: return make(n << 20, dtype=np.uint8)\n\
        \x20   except Exception as e: return 'refused' if 'CUDA_ERROR_OUT_OF_MEMORY' in str(e) else e\n\
        a = ask(cuda.device_array, 2000); print(a.size >> 20)\n\
        for round in range(3):\n\
        \x20   b = ask(cuda.managed_array, 2000); print(b if isinstance(b, str) else 'served'); del b\n\
        \x20   del a; a = ask(cuda.device_array, 2000); print(a.size >> 20)\n\
        print(cuda.pinned_array(4000 << 20, dtype=np.uint8).size >> 20)\n\
        s = cuda.stream(); c = np.arange(1 << 20); print((cuda.to_device(c, stream=s).copy_to_host(stream=s) == c).all())\n";
    let [bare, held] = both(code);
    let rows = |word: &str| format!("2000\n{}4000\nTrue", format!("{word}\n2000\n").repeat(3));
    assert_eq!(bare, rows("served"));
    assert_eq!(held, rows("refused"));
}

#[test]
fn cudarc() {
    let case = Case::quota(4);
    let program = Path::new(env!("CARGO_BIN_EXE_cudarc-client"));
    let rows = |total: &str, row: &str| format!("{total}\n{}", format!("{row}\n4 MiB\n").repeat(2));
    let bare = rows("16130", "3 MiB, 3 MiB, 15695 of 16130");
    assert_eq!(output(&mut case.bare(program)), bare);
    let held = rows("4", "3 MiB, CUDA_ERROR_OUT_OF_MEMORY, 0 of 4");
    assert_eq!(output(&mut case.held(program)), held);
}

#[test]
fn nvtop() {
    let root = parts::cache().join("nvtop/3.2.0/usr");
    let libraries = root.join("lib/x86_64-linux-gnu");
    let case = Case::quota(3072);
    let mut user = case.live();
    assert_eq!(user.steps(&["ctx 0", "alloc 1000"]), [0, 0]);
    // Run by the loader and the C library that it was built for.
    let loader = libraries.join("ld-linux-x86-64.so.2");
    let path = format!("{}:{}", case.driver().display(), libraries.display());
    let seen =
        |mut command: Command| output(command.args(["--library-path", &path]).arg(root.join("bin/nvtop")).arg("-s"));
    let (bare, held) = (seen(case.bare(&loader)), seen(case.held(&loader)));
    user.end();
    // 1,429 of 16,130 MiB and 1,000 of 3,072 MiB; all else is the same.
    assert!(bare.contains("\"mem_util\": \"8%\""), "{bare}");
    assert_eq!(held, bare.replace("\"mem_util\": \"8%\"", "\"mem_util\": \"32%\""));
}

/// The declarations are cuda.h's after its own renaming, as a compiler leaves them in the program.
const LINKED: &str = "#include <stdio.h>\n\
    int cuInit(unsigned), cuDeviceGet(int *, int), cuDeviceTotalMem_v2(size_t *, int), cuCtxCreate_v2(void **, unsigned, int);\n\
    int cuMemAlloc_v2(unsigned long long *, size_t), cuMemFree_v2(unsigned long long), cuMemGetInfo_v2(size_t *, size_t *);\n\
    int cuMemAllocAsync_ptsz(unsigned long long *, size_t, void *), cuCtxDestroy_v2(void *);\n\
    int main(void) {\n\
    \x20   int device; void *context; unsigned long long a, b, c; size_t free, total, all;\n\
    \x20   int start = cuInit(0) | cuDeviceGet(&device, 0) | cuDeviceTotalMem_v2(&all, device) | cuCtxCreate_v2(&context, 0, device);\n\
    \x20   int first = cuMemAlloc_v2(&a, (size_t)2000 << 20), second = cuMemAlloc_v2(&b, (size_t)2000 << 20);\n\
    \x20   int third = cuMemAllocAsync_ptsz(&c, (size_t)1500 << 20, NULL), info = cuMemGetInfo_v2(&free, &total);\n\
    \x20   int freed = cuMemFree_v2(a), again = cuMemAllocAsync_ptsz(&c, (size_t)1500 << 20, NULL);\n\
    \x20   printf(\"%d %zu %d %d %d %d %zu %zu %d %d %d\", start, all >> 20, first, second, third, info, free >> 20, total >> 20, freed,\n\
    \x20       again, cuCtxDestroy_v2(context));\n\
    \x20   return 0;\n}\n";

#[test]
fn a_program_that_is_linked_to_libcuda() {
    let case = Case::quota(3072);
    let (source, program) = (case.dir().join("linked.c"), case.dir().join("linked"));
    fs::write(&source, LINKED).expect("the test's folder can be written");
    symlink(case.driver().join("libcuda.so.1"), case.dir().join("libcuda.so"))
        .expect("the test's folder can be written");
    let done = Command::new("cc").arg("-o").args([&program, &source]).arg("-L").arg(case.dir()).arg("-lcuda").status();
    assert!(done.expect("a C compiler is the linker that cargo needs").success(), "cannot link linked.c");
    assert_eq!(output(&mut case.bare(&program)), "0 16130 0 0 0 0 10201 16130 0 0 0");
    assert_eq!(output(&mut case.held(&program)), "0 3072 0 2 2 0 1072 3072 0 0 0");
}
