"""What a container sees of the GPU, as one line of JSON: device nodes with their numbers, what opening them says, the environment, where the driver's
libraries come from, and what their users count."""

import ctypes
import errno
import glob
import json
import os
import stat
import subprocess


def opened(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def main():
    nodes, opens = {}, {}
    for path in sorted(glob.glob("/dev/nvidia*")):
        status = os.stat(path)
        assert stat.S_ISCHR(status.st_mode), path
        nodes[path] = [os.major(status.st_rdev), os.minor(status.st_rdev)]
        opens[path] = opened(path)
    libraries = {}
    for name in ["libcuda.so.1", "libnvidia-ml.so.1"]:
        libraries[name] = ""
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        with open("/proc/self/maps") as maps:
            libraries[name] = next(line.split()[5] for line in maps if name in line)
    count = ctypes.c_int(0)
    smi = ""
    if libraries["libcuda.so.1"]:
        cuda = ctypes.CDLL("libcuda.so.1")
        assert cuda.cuInit(0) == 0, "cuInit"
        assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0, "cuDeviceGetCount"
        smi = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout
    try:
        with open("/etc/ld.so.cache", "rb") as file:
            cached = b"/usr/lib/x86_64-linux-gnu/libcuda.so.1\0" in file.read()
    except OSError:
        cached = False
    env = os.environ.get("NVIDIA_VISIBLE_DEVICES")
    print(json.dumps({"nodes": nodes, "opens": opens, "env": env, "libraries": libraries, "cuda": count.value, "smi": smi, "cached": cached}))


main()
