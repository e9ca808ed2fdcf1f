# SPDX-License-Identifier: BSD-2-Clause
"""python -m rdmamsg [DEVICE]: the version, devices and their capabilities."""

import sys

import rdmamsg


def show(name: str) -> None:
    """Prints what the library can do on a device."""
    for cap in rdmamsg.capabilities(name):
        value = f" {cap.value}" if cap.value else ""
        reason = f"  ({cap.reason})" if cap.reason else ""
        print(f"    {cap.name:20} {cap.how.name.lower()}{value}{reason}")


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    print(f"rdmamsg {rdmamsg.__version__}, librdmamsg {rdmamsg.version()}")
    status = 0
    for attr in rdmamsg.devices():
        name = attr["name"]
        if arguments and name not in arguments:
            continue
        print(f"{name}: {attr['kind']}, ports {attr['ports']}, "
              f"active {attr['ports_active']}")
        try:
            show(name)
        except rdmamsg.Error as err:
            print(f"    {err.strerror}")
            status = 1
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except rdmamsg.Error as err:
        sys.exit(f"rdmamsg: {err.strerror}")
