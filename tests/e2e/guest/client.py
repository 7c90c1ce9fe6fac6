"""A CUDA client for the tests: does what its arguments say, and prints one line of JSON for each.

total            cuDeviceTotalMem, in MiB
info             cuMemGetInfo: free and total, in MiB
nvml             NVML's total, used and free, in MiB
alloc:N          cuMemAlloc of N MiB: the result's number
free:K           cuMemFree of the K-th successful allocation: the result's number
until:N          waits until cuMemGetInfo's total is N MiB
wait:FILE        waits until FILE exists
said:FILE        creates FILE
"""

import json
import os
import sys
import time

import pynvml
from cuda.bindings import driver


def mib(number):
    return int(number) >> 20


def main():
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert int(driver.cuInit(0)[0]) == 0, "cuInit"
    device = driver.cuDeviceGet(0)[1]
    context = driver.cuDevicePrimaryCtxRetain(device)[1]
    assert int(driver.cuCtxSetCurrent(context)[0]) == 0, "cuCtxSetCurrent"
    allocations = []
    for step in sys.argv[1:]:
        what, _, argument = step.partition(":")
        if what == "total":
            said = mib(driver.cuDeviceTotalMem(device)[1])
        elif what == "info":
            _, free, total = driver.cuMemGetInfo()
            said = [mib(free), mib(total)]
        elif what == "nvml":
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            said = [mib(memory.total), mib(memory.used), mib(memory.free)]
        elif what == "alloc":
            result, address = driver.cuMemAlloc(int(argument) << 20)
            said = int(result)
            if said == 0:
                allocations.append(address)
        elif what == "free":
            said = int(driver.cuMemFree(allocations[int(argument)])[0])
        elif what == "until":
            while mib(driver.cuMemGetInfo()[2]) != int(argument):
                time.sleep(0.01)
            said = True
        elif what == "wait":
            while not os.path.exists(argument):
                time.sleep(0.01)
            said = True
        elif what == "said":
            open(argument, "w").close()
            said = True
        else:
            raise SystemExit("unknown step " + step)
        print(json.dumps({step: said}), flush=True)


main()
