#!/usr/bin/env python3
"""Prints the properties of this machine that affect the figures, as JSON.

machine.py FOLDER; the folder is on the device to measure.
"""

import json
import os
import platform
import sys
import time


def field(path: str, name: str, separator: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                key, found, value = line.partition(separator)
                if found and key.strip() == name:
                    return value.strip().strip('"')
    except OSError:
        pass
    return None


def file_system(folder: str) -> str:
    """Returns the file system of the folder: that of the mount with the longest matching path."""
    best = ("", "unknown")
    folder = os.path.realpath(folder)
    with open("/proc/mounts", encoding="utf-8") as mounts:
        for mount in mounts:
            _, point, kind, *_ = mount.split(" ")
            if (folder + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
                best = (point, kind)
    return best[1]


def fdatasync_per_second(folder: str, seconds: float = 2.0) -> int:
    """Measures how often per second 4 KiB can be written and synced, in a file whose blocks are already allocated."""
    path = os.path.join(folder, "fdatasync")
    block, blocks = b"\1" * 4096, 1024
    with open(path, "wb", buffering=0) as file:
        file.write(block * blocks)
        os.fsync(file.fileno())
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            os.pwrite(file.fileno(), block, count % blocks * len(block))
            os.fdatasync(file.fileno())
            count += 1
        took = time.perf_counter() - start
    os.remove(path)
    return round(count / took)


def main() -> None:
    folder = sys.argv[1]
    memory = field("/proc/meminfo", "MemTotal", ":")
    facts = {
        # Read first, so that this measurement does not count.
        "load_average": round(os.getloadavg()[0], 2),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": field("/proc/cpuinfo", "model name", ":"),
        "memory_gib": round(int(memory.split()[0]) / 2**20, 1) if memory else None,
        "kernel": platform.release().split("-")[0],
        "system": field("/etc/os-release", "PRETTY_NAME", "="),
        "file_system": file_system(folder),
        "fdatasync_per_second": fdatasync_per_second(folder),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
