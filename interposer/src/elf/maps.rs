//! The driver in a link-map namespace of its own (`dlmopen`): the loader does not list it to us, but the kernel lists what is mapped.
//!
//! # Safety
//! A mapping of the beginning of a driver library holds its ELF header, and as long as it is loaded its program headers; who is in the midst of a look-up in it
//! has not unloaded it.
#![expect(unsafe_code, reason = "reads the headers of objects at the addresses that the kernel tells")]
use super::{Object, ObjectInfo, word};
use crate::sys::File;
use core::ops::ControlFlow;

/// A line of `/proc/self/maps` is looked at so far; what is behind is the end of a long path, which is not wanted then.
const LINE: usize = 4096 + 128;

/// Visits the driver libraries that are mapped, until the visitor breaks.
pub(super) fn each_driver(mut visit: impl FnMut(Object<'_>) -> ControlFlow<()>) {
    let Ok(file) = File::open(c"/proc/self/maps", false) else { return };
    let (mut chunk, mut line, mut length) = ([0_u8; 1024], [0_u8; LINE], 0);
    loop {
        let read = file.read(&mut chunk);
        if read == 0 {
            return;
        }
        for byte in chunk.iter().take(read) {
            if *byte != b'\n' {
                if let Some(place) = line.get_mut(length) {
                    *place = *byte;
                    length += 1;
                }
                continue;
            }
            let base = line.get(..length).and_then(beginning_of_driver);
            length = 0;
            let Some(info) = base.map(info_of) else { continue };
            if Object::read(&info).is_some_and(|object| visit(object).is_break()) {
                return;
            }
        }
    }
}

/// The address of a line that maps the beginning of a driver library.
fn beginning_of_driver(line: &[u8]) -> Option<usize> {
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let (range, mode, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let path = fields.nth(2)?;
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let driver = name.starts_with(b"libcuda.so") || name.starts_with(b"libnvidia-ml.so");
    let first = driver && mode.first() == Some(&b'r') && offset.iter().all(|byte| *byte == b'0');
    first.then(|| hexadecimal(range.split(|byte| *byte == b'-').next()?)).flatten()
}

fn hexadecimal(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0_usize, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        number.checked_mul(16)?.checked_add(digit as usize)
    })
}

/// What the loader would say of an object that begins at an address.
fn info_of(base: usize) -> ObjectInfo {
    // SAFETY: `e_phoff` in the ELF header that lies there.
    let headers = unsafe { (base.wrapping_add(32) as *const u64).read_unaligned() };
    // SAFETY: `e_phnum`.
    let count = unsafe { (base.wrapping_add(56) as *const u16).read_unaligned() };
    let headers = base.wrapping_add(word(headers)) as *const super::ProgramHeader;
    ObjectInfo { base, name: core::ptr::null(), headers, count }
}
