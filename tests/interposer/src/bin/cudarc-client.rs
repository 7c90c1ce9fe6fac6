//! What a Rust program does with cudarc, for `tests/clients.rs`: takes memory, is refused, gives it back, takes it again, and says how much there is. It
//! knows nothing of the interposer, and judges nothing.
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use std::sync::Arc;

/// Takes that many MiB, few because they are filled, by `cuMemAllocAsync` or, where the driver has no pools, `cuMemAlloc`.
fn take(stream: &Arc<CudaStream>, mib: usize) -> Result<CudaSlice<u8>, DriverError> {
    stream.alloc_zeros::<u8>(mib << 20)
}

fn said(taken: &Result<CudaSlice<u8>, DriverError>) -> String {
    match taken {
        Ok(slice) => format!("{} MiB", slice.len() >> 20),
        Err(error) => format!("{:?}", error.0),
    }
}

fn main() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let streams = [context.default_stream(), context.new_stream()?];
    println!("{}", context.total_mem()? >> 20);
    for stream in streams {
        let first = take(&stream, 3);
        let second = take(&stream, 3);
        let (free, total) = context.mem_get_info()?;
        println!("{}, {}, {} of {}", said(&first), said(&second), free >> 20, total >> 20);
        drop((first, second));
        stream.synchronize()?;
        println!("{}", said(&take(&stream, 4)));
        stream.synchronize()?;
    }
    Ok(())
}
