#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: sanitizer.sh BUILDDIR
#
# Prints the compiler's flags for the sanitizers that a build has.

library=$1/.libs/librdmamsg.so
flags=
if grep -q __asan_init "$library"
then
	flags=-fsanitize=address
fi
if grep -q __ubsan_handle "$library"
then
	flags="$flags -fsanitize=undefined"
fi
if grep -q __tsan_init "$library"
then
	flags="$flags -fsanitize=thread"
fi
echo "$flags"
