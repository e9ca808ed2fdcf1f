/* SPDX-License-Identifier: BSD-2-Clause */
/* The version of this release. */
#include "base/base.h"

#include <rdmamsg/diag.h>
#include <rdmamsg/version.h>

#define STRING(x)		#x
#define DOTTED(a, b, c)	STRING(a) "." STRING(b) "." STRING(c)

const char *rdmamsg_version(void)
{
	return DOTTED(RDMAMSG_VERSION_MAJOR, RDMAMSG_VERSION_MINOR,
		      RDMAMSG_VERSION_PATCH);
}
