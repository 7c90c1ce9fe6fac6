//! Physical memory and mappings by hand.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use super::Guest;
use crate::Answer;
use crate::driver::cuda;

/// `CUmemAllocationProp` of cuda.h.
#[repr(C)]
struct Properties {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
    windows: usize,
    flags: [u8; 8],
}

impl Guest {
    /// Physical memory at a location: kind (0 stands for 1, a device) and number.
    pub(super) fn create(&mut self, bytes: usize, kind: u32, id: i32) -> Answer {
        let location_type = if kind == 0 { 1 } else { kind };
        let properties =
            Properties { kind: 1, handle_types: 0, location_type, location_id: id, windows: 0, flags: [0; 8] };
        let mut handle = 0;
        let result = cuda!("cuMemCreate", (
            &raw mut handle => *mut u64, bytes => usize, &raw const properties => *const Properties, 0 => u64,
        ));
        self.keep_handle(result, handle, bytes)
    }

    fn keep_handle(&mut self, result: i32, handle: u64, bytes: usize) -> Answer {
        if result != 0 {
            return Answer::code(result);
        }
        self.handles.push((handle, bytes));
        Answer::values(0, &[self.handles.len() as u64 - 1])
    }

    pub(super) fn handle(&self, at: usize) -> (u64, usize) {
        self.handles.get(at).copied().unwrap_or_default()
    }

    fn mapping(&self, at: usize) -> (u64, usize) {
        self.mappings.get(at).copied().unwrap_or_default()
    }

    /// Maps the whole of a handle at fresh addresses.
    pub(super) fn map(&mut self, at: usize) -> Answer {
        let (handle, bytes) = self.handle(at);
        let mut address = 0;
        let reserved = cuda!("cuMemAddressReserve", (
            &raw mut address => *mut u64, bytes => usize, 0 => usize, 0 => u64, 0 => u64,
        ));
        if reserved != 0 {
            return Answer::code(reserved);
        }
        let mapped = cuda!("cuMemMap", (address => u64, bytes => usize, 0 => usize, handle => u64, 0 => u64));
        if mapped != 0 {
            return Answer::code(mapped);
        }
        self.mappings.push((address, bytes));
        Answer::values(0, &[self.mappings.len() as u64 - 1])
    }

    pub(super) fn unmap(&self, at: usize) -> Answer {
        let (address, bytes) = self.mapping(at);
        Answer::code(cuda!("cuMemUnmap", (address => u64, bytes => usize)))
    }

    pub(super) fn release(&self, at: usize) -> Answer {
        Answer::code(cuda!("cuMemRelease", (self.handle(at).0 => u64)))
    }

    /// One more handle of mapped memory.
    pub(super) fn retain(&mut self, at: usize) -> Answer {
        let (address, bytes) = self.mapping(at);
        let mut handle = 0;
        let result = cuda!("cuMemRetainAllocationHandle", (&raw mut handle => *mut u64, address => u64));
        self.keep_handle(result, handle, bytes)
    }

    /// Maps a part of a handle's memory behind the last mapping of such a part, in a reservation of 64 GiB.
    pub(super) fn map_part(&mut self, at: usize, offset: usize, bytes: usize) -> Answer {
        const RESERVATION: usize = 64 << 30;
        let (handle, _) = self.handle(at);
        let mut address = self.mappings.last().map_or(0, |(address, bytes)| address + *bytes as u64);
        if address == 0 {
            let reserved = cuda!("cuMemAddressReserve", (
                &raw mut address => *mut u64, RESERVATION => usize, 0 => usize, 0 => u64, 0 => u64,
            ));
            if reserved != 0 {
                return Answer::code(reserved);
            }
        }
        let mapped = cuda!("cuMemMap", (address => u64, bytes => usize, offset => usize, handle => u64, 0 => u64));
        if mapped != 0 {
            return Answer::code(mapped);
        }
        self.mappings.push((address, bytes));
        Answer::values(0, &[self.mappings.len() as u64 - 1])
    }

    /// Unmaps so much from a mapping's beginning on.
    pub(super) fn unmap_range(&self, at: usize, bytes: usize) -> Answer {
        Answer::code(cuda!("cuMemUnmap", (self.mapping(at).0 => u64, bytes => usize)))
    }

    /// A descriptor of a handle (`CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, 1).
    pub(super) fn export(&mut self, at: usize) -> Answer {
        let mut descriptor = 0_u32;
        let result = cuda!("cuMemExportToShareableHandle", (
            &raw mut descriptor => *mut u32, self.handle(at).0 => u64, 1 => u32, 0 => u64,
        ));
        if result != 0 {
            return Answer::code(result);
        }
        self.descriptors.push(descriptor);
        Answer::values(0, &[self.descriptors.len() as u64 - 1])
    }

    fn descriptor(&self, at: usize) -> u32 {
        self.descriptors.get(at).copied().unwrap_or_default()
    }

    /// A handle of a descriptor.
    pub(super) fn import(&mut self, at: usize) -> Answer {
        let mut handle = 0;
        let result = cuda!("cuMemImportFromShareableHandle", (
            &raw mut handle => *mut u64, self.descriptor(at) as usize => usize, 1 => u32,
        ));
        self.keep_handle(result, handle, 0)
    }

    /// Closes a descriptor.
    pub(super) fn close(&self, at: usize) -> Answer {
        Answer::code(cuda!("simCloseDescriptor", (self.descriptor(at).cast_signed() => i32)))
    }
}
