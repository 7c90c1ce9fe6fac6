# Takes memory with faiss, for the temporary memory of its searches, and says what it was told; in MiB.
import ctypes

import faiss

MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")


def mib():
    numbers = [ctypes.c_size_t(), ctypes.c_size_t()]
    assert driver.cuMemGetInfo_v2(*map(ctypes.byref, numbers)) == 0
    return [number.value // MIB for number in numbers]


def take(amount):
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(amount * MIB)
    resources.getResources().initializeForDevice(0)
    return resources


def said(amount):
    try:
        return take(amount)
    except RuntimeError as error:
        return str(error)


print(faiss.get_num_gpus())
for _ in range(2):
    kept = []
    refused = "none refused"
    while refused == "none refused" and len(kept) < 8:
        resources = said(1200)
        if isinstance(resources, str):
            refused = resources
        else:
            kept.append(resources)
    del resources
    # At most that much is taken at once as fits the size of the card that faiss sees.
    _, amount = kept[0].getMemoryInfo()[0]["TemporaryMemoryBuffer"]
    print(len(kept), amount // MIB, mib(), refused.strip())
    index = faiss.GpuIndexFlatL2(kept[0], 64)
    print(index.ntotal)
    del index
    kept.clear()
    print(mib())
