#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes configure from a bare checkout.
cd "$(dirname "$0")" && exec autoreconf -fi
