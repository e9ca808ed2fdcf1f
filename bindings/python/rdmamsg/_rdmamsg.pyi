# SPDX-License-Identifier: BSD-2-Clause
# The module that cffi makes: the C interface, which has no types here.
from typing import Any

ffi: Any
lib: Any
