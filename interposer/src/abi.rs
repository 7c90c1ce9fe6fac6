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

/// `CUmemLocation` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: u32,
    pub(crate) id: i32,
}

/// `CUmemAllocationProp` of cuda.h, up to the location.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemProp {
    pub(crate) kind: u32,
    pub(crate) handle_types: u32,
    pub(crate) location: Location,
}

/// `CUmemPoolProps` of cuda.h, up to the location.
pub(crate) type PoolProps = MemProp;

/// `CUDA_MEM_ALLOC_NODE_PARAMS` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocNodeParams {
    pub(crate) pool: PoolProps,
    pub(crate) pool_rest: [u64; 9],
    pub(crate) access: [usize; 2],
    pub(crate) bytes: usize,
    pub(crate) address: u64,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` of cuda.h, in its own words.
#[derive(Clone, Copy)]
pub(crate) struct ArrayShape {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR`, in words of either size.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArrayDescriptor<Word> {
    pub(crate) width: Word,
    pub(crate) height: Word,
    pub(crate) format: u32,
    pub(crate) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`, in words of either size.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Array3dDescriptor<Word> {
    pub(crate) width: Word,
    pub(crate) height: Word,
    pub(crate) depth: Word,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

/// `CUarrayMapInfo` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArrayMapInfo {
    pub(crate) resource_kind: u32,
    pub(crate) resource: u64,
    pub(crate) subresource_kind: u32,
    pub(crate) subresource: [u64; 4],
    pub(crate) operation: u32,
    pub(crate) handle_kind: u32,
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) device_mask: u32,
    pub(crate) flags: u32,
    pub(crate) reserved: [u32; 2],
}

/// The location types of the host (1 is a device): `CU_MEM_LOCATION_TYPE_HOST`, `_HOST_NUMA`, `_HOST_NUMA_CURRENT`.
pub(crate) const LOCATION_HOST: core::ops::RangeInclusive<u32> = 2..=4;

const _: () = assert!(size_of::<NvmlMemory>() == 24);
const _: () = assert!(size_of::<NvmlMemoryV2>() == 40);
const _: () = assert!(size_of::<MemProp>() == 16);
const _: () = assert!(size_of::<AllocNodeParams>() == 120);
const _: () = assert!(core::mem::offset_of!(AllocNodeParams, bytes) == 104);
const _: () = assert!(size_of::<ArrayDescriptor<usize>>() == 24);
const _: () = assert!(size_of::<Array3dDescriptor<usize>>() == 40);
const _: () = assert!(size_of::<ArrayMapInfo>() == 96);
const _: () = assert!(core::mem::offset_of!(ArrayMapInfo, handle) == 64);
