#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: soft.sh BUILDDIR [PROGRAM...]
#
# Like run.sh, on the soft HCA: on any host, without a machine, in a fabric of
# its own.

export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="test-$$"
export RDMAMSG_VM_ADDR=127.0.0.1 RDMAMSG_VM_ADDR6=::1
export RDMAMSG_VM_DEVICE=soft0 RDMAMSG_VM_HOST=localhost
exec sh "$(dirname "$0")/run.sh" "$@"
