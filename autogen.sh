#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes configure from a bare checkout.
# aclocal demands the folder of its macros. configure is there before automake
# makes Makefile.in: as long as configure.making is there, it is half made.
cd "$(dirname "$0")" && mkdir -p build-aux/m4 && : >configure.making &&
	autoreconf -fi && rm -f configure.making
