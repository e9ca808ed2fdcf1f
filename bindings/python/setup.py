# SPDX-License-Identifier: BSD-2-Clause
"""Builds the extension. pyproject.toml has everything else."""

import os
import pathlib
import shutil
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from build_ffi import Library  # noqa: E402


class BuildPy(build_py):
    """With RDMAMSG_BUNDLE the wheel contains librdmamsg."""

    def run(self) -> None:
        super().run()
        if os.environ.get("RDMAMSG_BUNDLE"):
            name = "librdmamsg.so.0"
            shutil.copyfile(Library().libdir / name,
                            os.path.join(self.build_lib, "rdmamsg", name))


setup(cffi_modules=["build_ffi.py:make"], cmdclass={"build_py": BuildPy})
