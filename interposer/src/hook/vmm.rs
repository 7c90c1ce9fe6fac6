//! Virtual memory management: physical memory is charged when it is created, and given back when its last handle and its last mapping are gone.
//!
//! # Safety
//! Pointers are the program's; they are read where cuda.h has the driver read them, and after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::{ArrayMapInfo, CuResult, LOCATION_HOST, MemProp};
use crate::hook::charge::{give_back, reserve};
use crate::real::{self, call};
use crate::start::{Share, share};
use crate::table::Name;
use account::Physical;
use account::physical::part_of_array;

fn create(handle: *mut u64, bytes: usize, prop: *const MemProp, flags: u64) -> CuResult {
    call!(
        real::of(Name::cuMemCreate),
        fn(*mut u64, usize, *const MemProp, u64) -> CuResult,
        (handle, bytes, prop, flags),
        else CuResult::NOT_FOUND
    )
}

fn release(handle: u64) -> CuResult {
    call!(real::of(Name::cuMemRelease), fn(u64) -> CuResult, (handle), else CuResult::NOT_FOUND)
}

/// Charged to the device of the location, whatever the thread's context; memory of the host is not charged.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemCreate(handle: *mut u64, bytes: usize, prop: *const MemProp, flags: u64) -> CuResult {
    if handle.is_null() || prop.is_null() || bytes == 0 {
        return create(handle, bytes, prop, flags);
    }
    // SAFETY: not NULL, and the program's properties by cuda.h.
    let location = unsafe { prop.read_unaligned() }.location;
    if LOCATION_HOST.contains(&location.kind) {
        return create(handle, bytes, prop, flags);
    }
    // The device, or a kind of a later release that is a place on a device too; what is none is refused by the look-up of the card or by the driver.
    let charge = match reserve(location.id, bytes as u64) {
        Ok(charge) => charge,
        Err(error) => return error,
    };
    let result = create(handle, bytes, prop, flags);
    if result != CuResult::SUCCESS {
        return result;
    }
    // SAFETY: not NULL, and the driver has written the handle there.
    let created = unsafe { *handle };
    let noted = charge.share().physical().is_some_and(|book| book.created(created, charge.word()).is_ok());
    if !noted {
        let _ = release(created);
        return CuResult::OUT_OF_MEMORY;
    }
    charge.settle();
    CuResult::SUCCESS
}

/// Forgotten before the driver's call, since another thread may get the same handle's value right after it. Where the driver then fails, the bytes stay
/// charged: too much is counted rather than too little.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemRelease(handle: u64) -> CuResult {
    let Some(share) = share() else { return release(handle) };
    let charge = share.physical().and_then(|book| book.released(handle));
    let result = release(handle);
    if let (CuResult::SUCCESS, Some(charge)) = (result, charge) {
        give_back(&share, charge);
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemMap(at: u64, bytes: usize, offset: usize, handle: u64, flags: u64) -> CuResult {
    let driver = || {
        call!(
            real::of(Name::cuMemMap),
            fn(u64, usize, usize, u64, u64) -> CuResult,
            (at, bytes, offset, handle, flags),
            else CuResult::NOT_FOUND
        )
    };
    let Some(share) = share() else { return driver() };
    let Some(book) = share.physical() else { return driver() };
    let result = driver();
    if result == CuResult::SUCCESS && book.mapped(at, bytes as u64, handle).is_err() {
        let _ = unmap(at, bytes);
        return CuResult::OUT_OF_MEMORY;
    }
    result
}

fn unmap(at: u64, bytes: usize) -> CuResult {
    call!(real::of(Name::cuMemUnmap), fn(u64, usize) -> CuResult, (at, bytes), else CuResult::NOT_FOUND)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemUnmap(at: u64, bytes: usize) -> CuResult {
    let result = unmap(at, bytes);
    if result == CuResult::SUCCESS
        && let Some(share) = share()
        && let Some(book) = share.physical()
    {
        book.unmapped(at, bytes as u64, |charge| give_back(&share, charge));
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemRetainAllocationHandle(handle: *mut u64, at: u64) -> CuResult {
    let result = call!(
        real::of(Name::cuMemRetainAllocationHandle),
        fn(*mut u64, u64) -> CuResult,
        (handle, at),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS
        && !handle.is_null()
        && let Some(book) = share().and_then(|share| share.physical())
    {
        // SAFETY: not NULL, and the driver has written the handle there.
        book.retained(unsafe { *handle }, at);
    }
    result
}

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: u32 = 1;

/// A handle that goes out as a descriptor and comes back is the same memory once more.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemExportToShareableHandle(out: *mut u32, handle: u64, kind: u32, flags: u64) -> CuResult {
    let result = call!(
        real::of(Name::cuMemExportToShareableHandle),
        fn(*mut u32, u64, u32, u64) -> CuResult,
        (out, handle, kind, flags),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS
        && kind == DESCRIPTOR
        && !out.is_null()
        && let Some(book) = share().and_then(|share| share.physical())
    {
        // SAFETY: not NULL, and the driver has written a descriptor there.
        book.exported(handle, unsafe { out.read_unaligned() });
    }
    result
}

/// What another process has made is charged to that process, and not a second time here.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemImportFromShareableHandle(handle: *mut u64, from: usize, kind: u32) -> CuResult {
    let result = call!(
        real::of(Name::cuMemImportFromShareableHandle),
        fn(*mut u64, usize, u32) -> CuResult,
        (handle, from, kind),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS
        && kind == DESCRIPTOR
        && !handle.is_null()
        && let Ok(descriptor) = u32::try_from(from)
        && let Some(book) = share().and_then(|share| share.physical())
    {
        // SAFETY: not NULL, and the driver has written the handle there.
        book.imported(unsafe { *handle }, descriptor);
    }
    result
}

/// What [`ArrayMapInfo::operation`] says of memory that is mapped.
const MAP: u32 = 1;

/// Notes what was mapped into and out of arrays; the driver has accepted it.
fn note_array_maps(list: *const ArrayMapInfo, count: u32) {
    let Some((share, book)) = share().and_then(|share| Some((share, share.physical()?))) else { return };
    for at in 0..count as usize {
        // SAFETY: the program's list of that many entries, which the driver has read.
        let entry = unsafe { list.wrapping_add(at).read_unaligned() };
        note_array_map(&share, book, &entry);
    }
}

fn note_array_map(share: &Share, book: Physical<'_>, entry: &ArrayMapInfo) {
    let [a, b, c, d] = entry.subresource;
    let part = part_of_array(entry.resource, &[u64::from(entry.subresource_kind), a, b, c, d]);
    let back = |charge| give_back(share, charge);
    if entry.operation == MAP {
        // A full table forgets the mapping: the memory's charge then ends with its handles.
        let _ = book.mapped_into(entry.resource, part, entry.handle, back);
    } else {
        book.unmapped_from(part, back);
    }
}

fn map_array(name: Name, list: *const ArrayMapInfo, count: u32, stream: usize) -> CuResult {
    let result = call!(
        real::of(name),
        fn(*const ArrayMapInfo, u32, usize) -> CuResult,
        (list, count, stream),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS && !list.is_null() {
        note_array_maps(list, count);
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemMapArrayAsync(list: *const ArrayMapInfo, count: u32, stream: usize) -> CuResult {
    map_array(Name::cuMemMapArrayAsync, list, count, stream)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemMapArrayAsync_ptsz(list: *const ArrayMapInfo, count: u32, stream: usize) -> CuResult {
    map_array(Name::cuMemMapArrayAsync_ptsz, list, count, stream)
}
