//! C types of CUDA and NVML, as the headers have them. Results are numbers with names, never Rust enums: a driver may return any.

/// `CUresult` of cuda.h.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct CuResult(pub(crate) u32);

impl CuResult {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    /// What an entry point says that the loaded driver lacks.
    pub(crate) const NOT_FOUND: Self = Self(500);
}

/// `nvmlReturn_t` of nvml.h.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct NvmlReturn(pub(crate) u32);

impl NvmlReturn {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const FUNCTION_NOT_FOUND: Self = Self(13);
}

/// `nvmlMemory_t`, in bytes.
#[repr(C)]
pub(crate) struct NvmlMemory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlMemory_v2_t`, in bytes.
#[repr(C)]
pub(crate) struct NvmlMemoryV2 {
    pub(crate) version: u32,
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `CUmemAllocationProp` of cuda.h, up to the location.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemProp {
    pub(crate) kind: u32,
    pub(crate) handle_types: u32,
    pub(crate) location_kind: u32,
    pub(crate) location_id: i32,
}

/// The location types of the host (1 is a device): `CU_MEM_LOCATION_TYPE_HOST`, `_HOST_NUMA`, `_HOST_NUMA_CURRENT`.
pub(crate) const LOCATION_HOST: core::ops::RangeInclusive<u32> = 2..=4;

const _: () = assert!(size_of::<NvmlMemory>() == 24);
const _: () = assert!(size_of::<NvmlMemoryV2>() == 40);
const _: () = assert!(size_of::<MemProp>() == 16);
