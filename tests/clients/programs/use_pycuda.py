# Takes memory in the ways that pycuda has, and says what it was told; in MiB.
import numpy
import pycuda.driver as driver

MIB = 1 << 20
driver.init()
device = driver.Device(0)
context = device.make_context()


def said(take):
    try:
        return take()
    except driver.MemoryError as error:
        return str(error)


def mib():
    return [number // MIB for number in driver.mem_get_info()]


print(device.total_memory() // MIB, mib())
ways = {
    "linear": lambda: driver.mem_alloc(2000 * MIB),
    "pitched": lambda: driver.mem_alloc_pitch(MIB, 2000, 16)[0],
    "managed": lambda: driver.managed_empty(2000 * MIB, numpy.uint8, mem_flags=driver.mem_attach_flags.GLOBAL),
}
for name, take in ways.items():
    for _ in range(2):
        first = take()
        second = said(take)
        print(name, second if isinstance(second, str) else "served", mib()[0])
        del first, second
    print(mib()[0])

from pycuda import gpuarray, tools

numbers = numpy.arange(1 << 20, dtype=numpy.int32)
print((gpuarray.to_gpu(numbers).get() == numbers).all())
pool = tools.DeviceMemoryPool()
kept = [pool.allocate(1000 * MIB)]
second = said(lambda: pool.allocate(2100 * MIB))
print("pool", second if isinstance(second, str) else "served", mib()[0])
del kept, second
print(pool.held_blocks, mib()[0])
pool.free_held()
print(pool.held_blocks, mib()[0])
del pool
context.pop()
context.detach()
