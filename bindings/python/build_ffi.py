# SPDX-License-Identifier: BSD-2-Clause
"""Declares the public headers of rdmamsg to cffi and compiles the module.

The declarations are read from the headers themselves, so that they cannot
differ. The headers and the library are those of

- RDMAMSG_SOURCE and RDMAMSG_BUILD, a source tree and its build directory, or
- pkg-config, for an installed library.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess

import cffi

HERE = pathlib.Path(__file__).resolve().parent

# In the order of their inclusion. README.md of bindings/ has the reasons for
# those that are not in the list.
HEADERS = """version rdmamsg endpoint flow timer listener device diag memory
    rma post group chain failover""".split()

# Types of the system that the headers use.
SYSTEM = """
struct sockaddr_storage { ...; };
struct iovec { void *iov_base; size_t iov_len; };
"""


def declarations(text: str) -> str:
    """What cffi reads of a header: no comments, no conditions, no values."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = text.replace("\\\n", " ")
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    lines = []
    for line in text.splitlines():
        constant = re.match(r"#define\s+(RDMAMSG_\w+)\s+\S", line)
        if constant:
            lines.append(f"#define {constant[1]} ...")
        elif not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines)


def pkg_config(*options: str) -> list[str]:
    """The words that pkg-config prints."""
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *options, "rdmamsg"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError) as err:
        raise SystemExit(
            f"rdmamsg: {shlex.join(command)} has failed: install librdmamsg, or "
            "set RDMAMSG_SOURCE and RDMAMSG_BUILD to a source tree and its "
            f"build directory ({err})") from err
    return shlex.split(done.stdout)


class Library:
    """Where the headers and the library are."""

    def __init__(self) -> None:
        source = os.environ.get("RDMAMSG_SOURCE")
        build = os.environ.get("RDMAMSG_BUILD")
        if not source and not build:
            self.include = pathlib.Path(*pkg_config("--variable=includedir"))
            self.libdir = pathlib.Path(*pkg_config("--variable=libdir"))
        elif source and build:
            self.include = pathlib.Path(source, "include")
            self.libdir = pathlib.Path(build, ".libs")
        else:
            raise SystemExit("rdmamsg: set both or none of RDMAMSG_SOURCE and "
                             "RDMAMSG_BUILD")

    def header(self, name: str) -> str:
        """The text of a public header."""
        return (self.include / "rdmamsg" / f"{name}.h").read_text()


def make() -> cffi.FFI:
    """The builder, which setup.py calls."""
    library = Library()
    ffi = cffi.FFI()
    events = (HERE / "events.h").read_text()
    ffi.cdef(SYSTEM + "".join(declarations(library.header(name))
                              for name in HEADERS))
    ffi.cdef(declarations(events))
    includes = "".join(f"#include <rdmamsg/{name}.h>\n" for name in HEADERS)
    # A wheel with the library has it beside the module.
    rpath = "$ORIGIN" if os.environ.get("RDMAMSG_BUNDLE") else ""
    ffi.set_source(
        "rdmamsg._rdmamsg",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "#include <time.h>\n" + includes + events +
        (HERE / "events.c").read_text(),
        include_dirs=[str(library.include)],
        library_dirs=[str(library.libdir)],
        libraries=["rdmamsg"],
        extra_link_args=[f"-Wl,-rpath,{rpath}"] if rpath else [])
    return ffi


if __name__ == "__main__":
    make().emit_c_code("_rdmamsg.c")
