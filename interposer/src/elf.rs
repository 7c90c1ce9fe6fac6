//! Finds symbols in the objects that the loader has loaded, without asking the loader's `dlsym`, which may be ours.
//!
//! # Safety
//! The loader's list is walked inside `dl_iterate_phdr`, which holds the loader's lock; the dynamic sections of loaded objects are mapped and well formed,
//! or the loader itself could not have used them.
#![expect(unsafe_code, reason = "reads the loader's and the objects' own tables")]
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::ControlFlow;

pub(crate) mod libc;
mod maps;

/// `ElfW(Phdr)` of 64-bit ELF.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

/// `struct dl_phdr_info`, up to what every libc has.
#[repr(C)]
struct ObjectInfo {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
}

/// `ElfW(Sym)` of 64-bit ELF.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

type Visitor = unsafe extern "C" fn(*const ObjectInfo, usize, *mut c_void) -> c_int;

/// Whose symbols to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The dynamic loader's functions: objects that come after us. One that comes before us and also stands in for the loader would call us back.
    After,
    /// The dynamic loader's functions, where no object after us has them: any object but ours.
    Anyone,
    /// The driver's: objects whose soname is that of libcuda or NVML; the one that begins there, where it is not 0 and still loaded.
    Driver(usize),
}

struct Search<'a> {
    name: &'a CStr,
    whose: Whose,
    seen_us: bool,
    seen_driver: bool,
    found: *const (),
}

/// The first definition of a name, in load order.
pub(crate) fn find(name: &CStr, whose: Whose) -> *const () {
    let mut search = Search { name, whose, seen_us: false, seen_driver: false, found: core::ptr::null() };
    libc::each_object(visit_search, (&raw mut search).cast());
    let Whose::Driver(base) = whose else { return search.found };
    if !search.seen_driver {
        maps::each_driver(|object| {
            if base != 0 && object.base != base {
                return ControlFlow::Continue(());
            }
            search.seen_driver = true;
            search.found = object.symbol(name);
            if search.found.is_null() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    if base != 0 && !search.seen_driver {
        return find(name, Whose::Driver(0));
    }
    search.found
}

unsafe extern "C" fn visit_search(info: *const ObjectInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: what `find` passed.
    let Some(search) = (unsafe { data.cast::<Search<'_>>().as_mut() }) else { return 1 };
    // SAFETY: the loader's own record, valid during the visit.
    let Some(object) = (unsafe { info.as_ref() }).and_then(Object::read) else { return 0 };
    if object.holds(visit_search as *const () as usize) {
        search.seen_us = true;
        return 0;
    }
    let due = match search.whose {
        Whose::After => search.seen_us,
        Whose::Anyone => true,
        Whose::Driver(base) => (base == 0 || object.base == base) && object.is_driver(),
    };
    search.seen_driver |= due;
    if !due {
        return 0;
    }
    search.found = object.symbol(search.name);
    c_int::from(!search.found.is_null())
}

struct Owner {
    address: usize,
    known: bool,
    driver: Option<usize>,
}

/// Where the driver library begins that holds an address; nothing for an address in anything but libcuda and NVML.
pub(crate) fn driver_of(address: *const ()) -> Option<usize> {
    let mut owner = Owner { address: address as usize, known: false, driver: None };
    libc::each_object(visit_owner, (&raw mut owner).cast());
    if !owner.known {
        maps::each_driver(|object| {
            owner.driver = object.holds(owner.address).then_some(object.base);
            if owner.driver.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    owner.driver
}

unsafe extern "C" fn visit_owner(info: *const ObjectInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: what `driver_of` passed.
    let Some(owner) = (unsafe { data.cast::<Owner>().as_mut() }) else { return 1 };
    // SAFETY: the loader's own record, valid during the visit.
    let Some(object) = (unsafe { info.as_ref() }).and_then(Object::read) else { return 0 };
    if !object.holds(owner.address) {
        return 0;
    }
    owner.known = true;
    owner.driver = object.is_driver().then_some(object.base);
    1
}

struct Order {
    address: usize,
    seen_us: bool,
    behind: bool,
}

/// Whether an address lies in an object that comes after us in load order.
pub(crate) fn is_behind_us(address: *const ()) -> bool {
    let mut order = Order { address: address as usize, seen_us: false, behind: false };
    libc::each_object(visit_order, (&raw mut order).cast());
    order.behind
}

unsafe extern "C" fn visit_order(info: *const ObjectInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: what `is_behind_us` passed.
    let Some(order) = (unsafe { data.cast::<Order>().as_mut() }) else { return 1 };
    // SAFETY: the loader's own record, valid during the visit.
    let Some(object) = (unsafe { info.as_ref() }).and_then(Object::read) else { return 0 };
    if object.holds(order.address) {
        order.behind = order.seen_us;
        return 1;
    }
    order.seen_us |= object.holds(visit_order as *const () as usize);
    0
}

/// An ELF word as an address of this process; this library is built for 64-bit machines only.
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits here")]
fn word(value: u64) -> usize {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    value as usize
}

/// A loaded object's tables.
struct Object<'a> {
    base: usize,
    headers: &'a [ProgramHeader],
    symbols: *const Symbol,
    strings: *const c_char,
    gnu_hash: *const u32,
    sysv_hash: *const u32,
    soname: usize,
}

impl<'a> Object<'a> {
    fn read(info: &'a ObjectInfo) -> Option<Self> {
        const PT_DYNAMIC: u32 = 2;
        if info.headers.is_null() {
            return None;
        }
        // SAFETY: the loader's array of that many headers.
        let headers = unsafe { core::slice::from_raw_parts(info.headers, usize::from(info.count)) };
        let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC)?;
        Self::tables(info.base, info.base.wrapping_add(word(dynamic.address)) as *const [usize; 2], headers)
    }

    /// By the dynamic section alone, for who needs no [`Object::holds`] and has no headers.
    fn tables(base: usize, mut entry: *const [usize; 2], headers: &'a [ProgramHeader]) -> Option<Self> {
        let mut object = Object {
            base,
            headers,
            symbols: core::ptr::null(),
            strings: core::ptr::null(),
            gnu_hash: core::ptr::null(),
            sysv_hash: core::ptr::null(),
            soname: usize::MAX,
        };
        loop {
            // SAFETY: the dynamic section ends with a null entry.
            let [tag, value] = unsafe { *entry };
            // glibc has added the base to addresses, musl and the vdso have not.
            let address = if value < base { value.wrapping_add(base) } else { value };
            match tag {
                0 => break,
                4 => object.sysv_hash = address as *const u32,
                5 => object.strings = address as *const c_char,
                6 => object.symbols = address as *const Symbol,
                14 => object.soname = value,
                0x6fff_fef5 => object.gnu_hash = address as *const u32,
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    fn holds(&self, address: usize) -> bool {
        const PT_LOAD: u32 = 1;
        let offset = address.wrapping_sub(self.base) as u64;
        let inside = |header: &&ProgramHeader| {
            header.kind == PT_LOAD && offset.wrapping_sub(header.address) < header.memory_size
        };
        self.headers.iter().find(inside).is_some()
    }

    fn is_named(&self, soname: &[u8]) -> bool {
        self.soname != usize::MAX && self.text(self.soname).to_bytes() == soname
    }

    fn is_driver(&self) -> bool {
        if self.soname == usize::MAX {
            return false;
        }
        let name = self.text(self.soname).to_bytes();
        name.starts_with(b"libcuda.so") || name.starts_with(b"libnvidia-ml.so")
    }

    fn text(&self, offset: usize) -> &CStr {
        // SAFETY: an offset into the object's own string table, whose strings end with NUL.
        unsafe { CStr::from_ptr(self.strings.wrapping_add(offset)) }
    }

    fn symbol(&self, name: &CStr) -> *const () {
        if !self.gnu_hash.is_null() {
            self.by_gnu_hash(name)
        } else if !self.sysv_hash.is_null() {
            self.by_sysv_hash(name)
        } else {
            core::ptr::null()
        }
    }

    /// The address of a defined function of this name at a place in the symbol table.
    fn at(&self, place: usize, name: &CStr) -> Option<*const ()> {
        const STT_FUNC: u8 = 2;
        // SAFETY: a place that the object's own hash table names.
        let symbol = unsafe { &*self.symbols.wrapping_add(place) };
        let function = symbol.info & 15 == STT_FUNC;
        if symbol.section == 0 || symbol.value == 0 || !function || self.text(symbol.name as usize) != name {
            return None;
        }
        Some(self.base.wrapping_add(word(symbol.value)) as *const ())
    }

    fn by_gnu_hash(&self, name: &CStr) -> *const () {
        let entry = |at: usize| {
            // SAFETY: within the object's own hash table, by the counts in its head.
            unsafe { *self.gnu_hash.wrapping_add(at) }
        };
        let (buckets, first, filter, _shift) = (entry(0), entry(1), entry(2), entry(3));
        let hash =
            name.to_bytes().iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let start = 4 + filter as usize * 2;
        let Some(bucket) = hash.checked_rem(buckets) else { return core::ptr::null() };
        let mut place = entry(start + bucket as usize);
        if place < first {
            return core::ptr::null();
        }
        loop {
            let chain = entry(start + buckets as usize + (place - first) as usize);
            if chain | 1 == hash | 1
                && let Some(address) = self.at(place as usize, name)
            {
                return address;
            }
            if chain & 1 != 0 {
                return core::ptr::null();
            }
            place = place.wrapping_add(1);
        }
    }

    fn by_sysv_hash(&self, name: &CStr) -> *const () {
        let entry = |at: usize| {
            // SAFETY: within the object's own hash table, by the counts in its head.
            unsafe { *self.sysv_hash.wrapping_add(at) }
        };
        let hash = name.to_bytes().iter().fold(0_u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(*byte));
            let high = hash & 0xf000_0000;
            (hash ^ (high >> 24)) & !high
        });
        let buckets = entry(0);
        let Some(bucket) = hash.checked_rem(buckets) else { return core::ptr::null() };
        let mut place = entry(2 + bucket as usize);
        while place != 0 {
            if let Some(address) = self.at(place as usize, name) {
                return address;
            }
            place = entry(2 + buckets as usize + place as usize);
        }
        core::ptr::null()
    }
}
