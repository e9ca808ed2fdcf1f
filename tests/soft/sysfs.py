# SPDX-License-Identifier: BSD-2-Clause
"""
Usage: sysfs.py

Walks the directory of the soft HCA below /sys/class/infiniband, as a program
under rdmamsg-soft that looks there does. Prints each file with its text. Fails
if a file that is listed is not a file, or cannot be read.
"""
import errno
import os
import sys

ROOT = "/sys/class/infiniband"


def walk(path):
    """Yields the path and the text of each file."""
    for name in sorted(os.listdir(path)):
        entry = path + "/" + name
        if os.path.isdir(entry):
            # below a network device are the kernel's own files
            if not path.endswith("/net"):
                yield from walk(entry)
            continue
        assert os.path.isfile(entry), entry
        assert os.access(entry, os.R_OK), entry
        assert not os.access(entry, os.W_OK), entry
        try:
            with open(entry, encoding="ascii") as file:
                yield entry, file.read().strip()
        except OSError as error:
            # an empty entry of the GID table has neither type nor device
            if error.errno != errno.ENOENT or "gid_attrs" not in entry:
                raise


def main():
    """Returns the exit status."""
    assert os.listdir(ROOT) == ["soft0"]
    assert os.path.isdir(ROOT + "/")
    assert not os.path.exists(ROOT + "/soft1")
    assert not os.path.exists(ROOT + "/soft0/ports/9")
    # with InfiniBand as well, because rdma_cm reaches the device by IP
    assert "lo" in os.listdir(ROOT + "/soft0/device/net")
    assert os.path.exists(ROOT + "/soft0/device/net/lo/mtu")
    assert os.path.realpath(ROOT + "/soft0/ports/../ports/1") \
        == ROOT + "/soft0/ports/1"
    for path, text in walk(ROOT):
        print(path[len(ROOT) + 1:], "=", text)
    # other directories are as before
    assert "self" in os.listdir("/proc") or "null" in os.listdir("/dev")
    return 0


sys.exit(main())
