# SPDX-License-Identifier: BSD-2-Clause
"""Refuses interpreters that the binding does not support, at import."""

import sys
import sysconfig


def _is_main() -> bool:
    """True in the main interpreter, or if there is no way to ask."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = __import__(name)
            return bool(module.get_current() == module.get_main())
        except (ImportError, AttributeError):
            continue
    return True


def supported() -> None:
    """Raises ImportError in an interpreter that the binding does not support.

    The library itself would load, and fail at any time.
    """
    if sys.implementation.name != "cpython":
        raise ImportError("rdmamsg needs CPython: its lifetimes rest on "
                          "reference counts")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError("rdmamsg does not support free-threaded builds: a "
                          "context is for one thread, and the GIL guards the "
                          "rest")
    if not _is_main():
        raise ImportError("rdmamsg does not support sub-interpreters: the "
                          "library has one state in a process; use processes "
                          "or threads")


supported()
