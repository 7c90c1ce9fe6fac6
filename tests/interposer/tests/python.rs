//! Real Python clients of NVML and CUDA, without and with the interposer.
use interposer_tests::{Case, output, python};

/// What a Python program prints without and with the interposer, white space squeezed.
fn both(arguments: &[&str]) -> (String, String) {
    let case = Case::quota(3072);
    let squeeze = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bare = squeeze(output(python::bare(&case).args(arguments)));
    let held = squeeze(output(python::held(&case).args(arguments)));
    (bare, held)
}

#[test]
fn pynvml() {
    let code = "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n\
        for m in (n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)):\n\
        \x20   print(m.total >> 20, m.free >> 20, m.used >> 20)\n";
    let (bare, held) = both(&["-c", code]);
    assert_eq!((bare.as_str(), held.as_str()), ("16130 16130 0 16130 16130 0", "3072 3072 0 3072 3072 0"));
}

#[test]
fn gpustat() {
    let (bare, held) = both(&["-m", "gpustat", "--no-color"]);
    assert!(bare.contains("0 / 16130 MB"), "{bare}");
    assert!(held.contains("0 / 3072 MB"), "{held}");
}

#[test]
fn nvitop() {
    let (bare, held) = both(&["-m", "nvitop", "-1"]);
    assert!(bare.contains("15.75GiB") || bare.contains("16130MiB"), "{bare}");
    assert!(held.contains("3072MiB") || held.contains("3.00GiB"), "{held}");
}

#[test]
fn cuda_bindings() {
    let code = "from cuda.bindings import driver as d\n\
        def ok(r):\n\
        \x20   assert r[0] == 0, r\n\
        \x20   return r[1] if len(r) > 1 else None\n\
        ok(d.cuInit(0)); c = ok(d.cuDevicePrimaryCtxRetain(0)); ok(d.cuCtxSetCurrent(c))\n\
        p = ok(d.cuMemAlloc(3000 << 20)); e, q = d.cuMemAlloc(100 << 20)\n\
        e2, f, t = d.cuMemGetInfo(); ok(d.cuMemFree(p)); r = ok(d.cuMemAlloc(2000 << 20)); ok(d.cuMemFree(r))\n\
        print(int(e), t >> 20, f >> 20)\n";
    let (bare, held) = both(&["-c", code]);
    assert_eq!((bare.as_str(), held.as_str()), ("0 16130 12601", "2 3072 72"));
}

#[test]
fn numba_cuda() {
    let code = "import numpy as np\n\
        from numba import cuda\n\
        a = np.arange(1 << 20); d = cuda.to_device(a); assert (d.copy_to_host() == a).all()\n\
        print(cuda.current_context().get_memory_info().total >> 20)\n\
        try:\n\
        \x20   cuda.device_array(4000 << 20, dtype=np.uint8); print('served')\n\
        except Exception as e:\n\
        \x20   print('refused' if 'MEMORY' in str(e) else e)\n";
    let (bare, held) = both(&["-W", "ignore", "-c", code]);
    assert_eq!((bare.as_str(), held.as_str()), ("16130 served", "3072 refused"));
}
