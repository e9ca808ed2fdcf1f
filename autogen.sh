#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes configure from a bare checkout.
# aclocal demands the folder of its macros.
cd "$(dirname "$0")" && mkdir -p build-aux/m4 && exec autoreconf -fi
