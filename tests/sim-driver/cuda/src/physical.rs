//! Virtual memory management: physical memory, its handles, and where it is mapped. It is freed when neither a handle nor a mapping is left. A handle's value
//! is given out again at once, even while the memory that it stood for is still mapped.
#![expect(unsafe_code, reason = "makes a descriptor for a handle that is shared")]
use crate::memory::{VMM, charge, forget, give_back};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::FromRawFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

struct Object {
    bytes: u64,
    device: Option<i32>,
    handles: u32,
    mappings: u32,
}

#[derive(Default)]
struct Physical {
    objects: HashMap<u64, Object>,
    /// Handle: object and how many times it is out.
    handles: HashMap<u64, (u64, u32)>,
    /// Handle values to be given out again, last in, first out.
    free: Vec<u64>,
    /// Mapped address: length and object.
    mapped: BTreeMap<u64, (u64, u64)>,
    /// Descriptor: object.
    exports: HashMap<i32, u64>,
    next: u64,
}

static PHYSICAL: LazyLock<Mutex<Physical>> = LazyLock::new(Mutex::default);

fn physical() -> MutexGuard<'static, Physical> {
    PHYSICAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Physical {
    fn change(&mut self, object: u64, change: impl FnOnce(&mut Object)) -> Result<(), u32> {
        let found = self.objects.get_mut(&object).ok_or(1_u32)?;
        change(found);
        if found.handles == 0 && found.mappings == 0 {
            give_back(found.device, found.bytes);
            self.objects.remove(&object);
        }
        Ok(())
    }

    fn new_handle(&mut self, object: u64) -> u64 {
        let handle = self.free.pop().unwrap_or_else(|| self.handles.len() as u64 + 1);
        self.handles.insert(handle, (object, 1));
        handle
    }

    fn object_of(&self, handle: u64) -> Result<u64, u32> {
        self.handles.get(&handle).map(|(object, _)| *object).ok_or(1)
    }
}

/// Memory of a device, or of the host (`None`).
pub(crate) fn create(device: Option<i32>, bytes: u64) -> Result<u64, u32> {
    if bytes == 0 || !bytes.is_multiple_of(VMM) {
        return Err(1);
    }
    charge(device, bytes)?;
    let mut physical = physical();
    physical.next += 1;
    let object = physical.next;
    physical.objects.insert(object, Object { bytes, device, handles: 1, mappings: 0 });
    Ok(physical.new_handle(object))
}

pub(crate) fn release(handle: u64) -> Result<(), u32> {
    let mut physical = physical();
    let (object, count) = physical.handles.get_mut(&handle).ok_or(1_u32)?;
    let object = *object;
    *count -= 1;
    if *count == 0 {
        physical.handles.remove(&handle);
        physical.free.push(handle);
    }
    physical.change(object, |object| object.handles -= 1)
}

/// One more handle of the memory that is mapped at an address: the same value where one is still out.
pub(crate) fn retain(at: u64) -> Result<u64, u32> {
    let mut physical = physical();
    let found = physical.mapped.range(..=at).next_back().filter(|(start, (length, _))| at < **start + length);
    let object = found.ok_or(1_u32)?.1.1;
    physical.change(object, |object| object.handles += 1)?;
    let out = physical.handles.iter().find(|(_, (other, _))| *other == object).map(|(handle, _)| *handle);
    Ok(match out {
        Some(handle) => {
            if let Some((_, count)) = physical.handles.get_mut(&handle) {
                *count += 1;
            }
            handle
        }
        None => physical.new_handle(object),
    })
}

/// A descriptor that stands for the memory in this process.
pub(crate) fn export(handle: u64) -> Result<i32, u32> {
    let mut physical = physical();
    let object = physical.object_of(handle)?;
    // SAFETY: a C string, and no flags.
    let descriptor = unsafe { libc::memfd_create(c"shareable".as_ptr(), 0) };
    if descriptor < 0 {
        return Err(2);
    }
    physical.exports.insert(descriptor, object);
    Ok(descriptor)
}

/// One more handle of the memory that a descriptor stands for. It closes no descriptor, as the driver closes none.
pub(crate) fn import(descriptor: i32) -> Result<u64, u32> {
    let mut physical = physical();
    let object = *physical.exports.get(&descriptor).ok_or(1_u32)?;
    physical.change(object, |object| object.handles += 1)?;
    Ok(physical.new_handle(object))
}

/// Closes a descriptor of [`export`], for programs that only have the number.
pub(crate) fn close(descriptor: i32) {
    if physical().exports.remove(&descriptor).is_some() {
        // SAFETY: a descriptor that we made, and that is forgotten now.
        drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) });
    }
}

/// One more use of the memory behind a handle, by a part of an array.
pub(crate) fn use_in_array(handle: u64) -> Result<u64, u32> {
    let mut physical = physical();
    let object = physical.object_of(handle)?;
    physical.change(object, |object| object.mappings += 1)?;
    Ok(object)
}

/// Ends what [`use_in_array`] began.
pub(crate) fn unuse(object: u64) {
    let _ = physical().change(object, |object| object.mappings = object.mappings.saturating_sub(1));
}

/// Maps a part of the memory behind a handle.
pub(crate) fn map(at: u64, bytes: u64, offset: u64, handle: u64) -> Result<(), u32> {
    let mut physical = physical();
    let overlaps = physical.mapped.range(..at.saturating_add(bytes)).next_back();
    if bytes == 0 || overlaps.is_some_and(|(start, (length, _))| start + length > at) {
        return Err(1);
    }
    let object = physical.object_of(handle)?;
    let whole = physical.objects.get(&object).map_or(0, |object| object.bytes);
    if offset.checked_add(bytes).is_none_or(|end| end > whole) || !(offset | bytes | at).is_multiple_of(VMM) {
        return Err(1);
    }
    physical.change(object, |object| object.mappings += 1)?;
    physical.mapped.insert(at, (bytes, object));
    Ok(())
}

/// Takes away every mapping of a range, which must not cut one in two.
pub(crate) fn unmap(at: u64, bytes: u64) -> Result<(), u32> {
    let mut physical = physical();
    let inside = physical.mapped.range(at..at.saturating_add(bytes));
    let gone: Vec<(u64, u64, u64)> = inside.map(|(start, (length, object))| (*start, *length, *object)).collect();
    if gone.is_empty() || gone.iter().any(|(start, length, _)| start + length > at.saturating_add(bytes)) {
        return Err(1);
    }
    for (start, length, object) in gone {
        physical.mapped.remove(&start);
        forget(start, length);
        physical.change(object, |object| object.mappings = object.mappings.saturating_sub(1))?;
    }
    Ok(())
}

/// The mapping that an address lies in: its start and length.
pub(crate) fn range(at: u64) -> Option<(u64, u64)> {
    physical().mapped.range(..=at).next_back().map(|(start, (length, _))| (*start, *length))
}
