//! The driver's own functions behind the hooked names, and the few others that hooks need. Found once, kept as addresses. When a look-up by the program
//! finds a name elsewhere than it was, the driver was loaded again, or there are two; all addresses are forgotten, and found in the one that was asked last.
//!
//! # Safety
//! An address is turned into a function only of the type that cuda.h or nvml.h gives the name under which the driver exports it.
use crate::elf::{self, Whose};
use crate::table::{HOOKS, Name};
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// An address of the driver, found at first use.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<()>,
    /// [`LOADS`] when the address was found.
    load: AtomicU32,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()), load: AtomicU32::new(0) }
    }

    /// NULL where no driver that is loaded has the name.
    pub(crate) fn get(&self) -> *const () {
        let load = LOADS.load(Ordering::Acquire);
        // Looked at first: a swap makes every thread wait for this line.
        if self.load.load(Ordering::Acquire) != load && self.load.swap(load, Ordering::AcqRel) != load {
            self.address.store(core::ptr::null_mut(), Ordering::Release);
        }
        get(&self.address, self.name)
    }
}

/// How often the driver was found to be loaded anew.
static LOADS: AtomicU32 = AtomicU32::new(0);

/// Where the driver libraries begin, once a look-up has found them elsewhere than by load order; 0 before.
static LIBCUDA: AtomicUsize = AtomicUsize::new(0);
static NVML: AtomicUsize = AtomicUsize::new(0);

fn base_of(name: &CStr) -> &'static AtomicUsize {
    if is_cuda(name) { &LIBCUDA } else { &NVML }
}

fn is_cuda(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"cu")
}

static ADDRESSES: [AtomicPtr<()>; HOOKS.len()] = [const { AtomicPtr::new(core::ptr::null_mut()) }; HOOKS.len()];

fn get(slot: &AtomicPtr<()>, name: &CStr) -> *const () {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let found = exported(name);
    slot.store(found.cast_mut(), Ordering::Relaxed);
    found
}

/// The driver's export of any name, looked for anew.
pub(crate) fn exported(name: &CStr) -> *const () {
    elf::find(name, Whose::Driver(base_of(name).load(Ordering::Acquire)))
}

/// The driver's function behind a hooked name; NULL where no driver that is loaded has it.
pub(crate) fn of(name: Name) -> *const () {
    at(name as usize)
}

/// As [`of`], by the place in [`HOOKS`].
pub(crate) fn at(place: usize) -> *const () {
    match (ADDRESSES.get(place), HOOKS.get(place)) {
        (Some(slot), Some(hook)) => get(slot, hook.name),
        _ => core::ptr::null(),
    }
}

/// Looks for every name of libcuda, once for each load of it: a name that is missing then is one that this driver lacks. libcuda is loaded, or nobody could ask.
pub(crate) fn find_all() {
    static DONE: AtomicU32 = AtomicU32::new(u32::MAX);
    let load = LOADS.load(Ordering::Acquire);
    if DONE.load(Ordering::Acquire) == load {
        return;
    }
    for (place, hook) in HOOKS.iter().enumerate() {
        if is_cuda(hook.name) {
            at(place);
        }
    }
    DONE.store(load, Ordering::Release);
}

/// The address that is known, by the place in [`HOOKS`]; NULL where none is.
pub(crate) fn known(place: usize) -> *const () {
    ADDRESSES.get(place).map_or(core::ptr::null(), |slot| slot.load(Ordering::Relaxed).cast_const())
}

/// Notes an address that the loader has just returned.
pub(crate) fn refresh(place: usize, address: *const ()) {
    let (Some(slot), Some(hook)) = (ADDRESSES.get(place), HOOKS.get(place)) else { return };
    let known = slot.load(Ordering::Acquire).cast_const();
    if !known.is_null() && known != address {
        if let Some(base) = elf::driver_of(address) {
            base_of(hook.name).store(base, Ordering::Release);
        }
        LOADS.fetch_add(1, Ordering::AcqRel);
        for other in &ADDRESSES {
            other.store(core::ptr::null_mut(), Ordering::Release);
        }
    }
    slot.store(address.cast_mut(), Ordering::Release);
}

/// Calls the driver's function behind a name with the given C type, or evaluates to the other value where it is not there.
macro_rules! call {
    ($address:expr, fn($($type:ty),*) -> $result:ty, ($($argument:expr),*), else $missing:expr) => {{
        let address: *const () = $address;
        if address.is_null() {
            $missing
        } else {
            // SAFETY: the address of the driver's export of a name that has this C type.
            let function = unsafe {
                core::mem::transmute::<*const (), unsafe extern "C" fn($($type),*) -> $result>(address)
            };
            // SAFETY: the arguments are those of the program, or our own of the same kind.
            unsafe { function($($argument),*) }
        }
    }};
}
pub(crate) use call;
