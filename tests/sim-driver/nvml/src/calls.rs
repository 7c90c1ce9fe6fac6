//! The simulated entry points, under their C names and with the signatures of nvml.h 12.4. Each only translates.

mod devices;
mod memory;
mod mig;
mod system;
