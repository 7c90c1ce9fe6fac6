//! The names that are hooked, each with its hook. Exact names only: a prefix would catch what is none of ours.
//!
//! `exports.txt` beside `Cargo.toml` lists them with `dlsym` and `dlvsym`, and the ELF check compares it with the library.
use crate::hook::pool::object;
use crate::hook::{alloc, array, context, graph, pool, query, sync, vmm};
use crate::resolve;
use core::ffi::CStr;

/// A hooked name.
pub(crate) struct Hook {
    pub(crate) name: &'static CStr,
    pub(crate) address: fn() -> *const (),
}

macro_rules! hooks {
    ($($module:ident :: $name:ident),* $(,)?) => {
        /// The place of each name in [`HOOKS`].
        #[expect(non_camel_case_types, reason = "the C names")]
        #[derive(Clone, Copy)]
        pub(crate) enum Name { $($name),* }

        /// All hooked names.
        pub(crate) static HOOKS: [Hook; [$(Name::$name),*].len()] = [$(Hook {
            name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
            address: || $module::$name as *const (),
        }),*];
    };
}

hooks!(
    resolve::cuGetProcAddress,
    resolve::cuGetProcAddress_v2,
    alloc::cuMemAlloc,
    alloc::cuMemAlloc_v2,
    alloc::cuMemAllocPitch,
    alloc::cuMemAllocPitch_v2,
    alloc::cuMemAllocManaged,
    alloc::cuMemFree,
    alloc::cuMemFree_v2,
    pool::cuMemAllocAsync,
    pool::cuMemAllocAsync_ptsz,
    pool::cuMemAllocFromPoolAsync,
    pool::cuMemAllocFromPoolAsync_ptsz,
    pool::cuMemFreeAsync,
    pool::cuMemFreeAsync_ptsz,
    object::cuMemPoolCreate,
    object::cuMemPoolDestroy,
    object::cuMemPoolTrimTo,
    object::cuDeviceGetDefaultMemPool,
    object::cuDeviceGetMemPool,
    object::cuMemGetDefaultMemPool,
    object::cuMemGetMemPool,
    sync::cuCtxSynchronize,
    sync::cuCtxSynchronize_v2,
    sync::cuStreamSynchronize,
    sync::cuStreamSynchronize_ptsz,
    sync::cuEventSynchronize,
    array::cuArrayCreate,
    array::cuArrayCreate_v2,
    array::cuArray3DCreate,
    array::cuArray3DCreate_v2,
    array::cuArrayDestroy,
    array::cuMipmappedArrayCreate,
    array::cuMipmappedArrayDestroy,
    graph::cuGraphInstantiate,
    graph::cuGraphInstantiate_v2,
    graph::cuGraphInstantiateWithFlags,
    graph::cuGraphInstantiateWithParams,
    graph::cuGraphInstantiateWithParams_ptsz,
    graph::cuGraphLaunch,
    graph::cuGraphLaunch_ptsz,
    graph::cuGraphUpload,
    graph::cuGraphUpload_ptsz,
    graph::cuGraphExecDestroy,
    graph::cuDeviceGraphMemTrim,
    vmm::cuMemCreate,
    vmm::cuMemRelease,
    vmm::cuMemMap,
    vmm::cuMemUnmap,
    vmm::cuMemRetainAllocationHandle,
    vmm::cuMemExportToShareableHandle,
    vmm::cuMemImportFromShareableHandle,
    vmm::cuMemMapArrayAsync,
    vmm::cuMemMapArrayAsync_ptsz,
    context::cuCtxCreate,
    context::cuCtxCreate_v2,
    context::cuCtxCreate_v3,
    context::cuCtxCreate_v4,
    context::cuCtxAttach,
    context::cuCtxDetach,
    context::cuDevicePrimaryCtxRetain,
    context::cuCtxDestroy,
    context::cuCtxDestroy_v2,
    context::cuDevicePrimaryCtxReset,
    context::cuDevicePrimaryCtxReset_v2,
    context::cuDevicePrimaryCtxRelease,
    context::cuDevicePrimaryCtxRelease_v2,
    query::cuMemGetInfo,
    query::cuMemGetInfo_v2,
    query::cuDeviceTotalMem,
    query::cuDeviceTotalMem_v2,
    query::nvmlDeviceGetMemoryInfo,
    query::nvmlDeviceGetMemoryInfo_v2,
    query::nvmlDeviceGetConfComputeProtectedMemoryUsage,
);

/// The place of a name; `None` for all that is not hooked.
pub(crate) fn find(name: &CStr) -> Option<usize> {
    // Nearly every look-up in a process is for another name; two letters tell.
    match name.to_bytes() {
        [b'c', b'u', ..] | [b'n', b'v', ..] => HOOKS.iter().position(|hook| hook.name == name),
        _ => None,
    }
}

/// From which version of CUDA (1000 for each major, 10 for each minor) `cuGetProcAddress` means a form of a name (`""`, `"_v2"`), as libcuda 550 answers it;
/// `None` for what is no form of a hooked name. The forms of later drivers are as their cuda.h has them.
pub(crate) fn since(form: &[u8], name: &CStr) -> Option<i32> {
    Some(match (form, name.to_bytes()) {
        (b"", _) => 0,
        (b"_v2", b"cuCtxDestroy_v2") => 4000,
        (b"_v2", b"cuDevicePrimaryCtxRelease_v2" | b"cuDevicePrimaryCtxReset_v2" | b"cuGraphInstantiate_v2") => 11_000,
        (b"_v2", b"cuGetProcAddress_v2") => 12_000,
        (b"_v2", b"cuCtxSynchronize_v2") => 13_000,
        (b"_v2", _) => 3020,
        (b"_v3", b"cuCtxCreate_v3") => 11_040,
        (b"_v4", b"cuCtxCreate_v4") => 12_050,
        _ => return None,
    })
}
