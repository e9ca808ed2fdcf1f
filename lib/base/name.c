/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the enum values in rdmamsg.h, and of this release. */
#include "base/base.h"

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>

#define STRING(x)		#x
#define DOTTED(a, b, c)	STRING(a) "." STRING(b) "." STRING(c)

static const char *name_of(const char *const *names, size_t count,
			   unsigned int n)
{
	return n < count && names[n] ? names[n] : "unknown";
}

#define NAME_OF(names, n) \
	name_of(names, sizeof(names) / sizeof((names)[0]), (unsigned int)(n))

const char *rdmamsg_who_name(enum rdmamsg_who who)
{
	static const char *const names[] = {
		[RDMAMSG_WHO_NONE] = "none",
		[RDMAMSG_WHO_LOCAL] = "local",
		[RDMAMSG_WHO_PEER] = "peer",
		[RDMAMSG_WHO_NETWORK] = "network",
		[RDMAMSG_WHO_DEVICE] = "device",
	};

	return NAME_OF(names, who);
}

const char *rdmamsg_cause_name(enum rdmamsg_cause cause)
{
	static const char *const names[] = {
		[RDMAMSG_CAUSE_NONE] = "none",
		[RDMAMSG_CAUSE_CLOSED] = "closed",
		[RDMAMSG_CAUSE_ABORTED] = "aborted",
		[RDMAMSG_CAUSE_TIMEOUT] = "timeout",
		[RDMAMSG_CAUSE_ADDRESS] = "address",
		[RDMAMSG_CAUSE_REFUSED] = "refused",
		[RDMAMSG_CAUSE_REJECTED] = "rejected",
		[RDMAMSG_CAUSE_UNREACHABLE] = "unreachable",
		[RDMAMSG_CAUSE_PROTOCOL] = "protocol",
		[RDMAMSG_CAUSE_VERSION] = "version",
		[RDMAMSG_CAUSE_TRANSPORT] = "transport",
		[RDMAMSG_CAUSE_ACCESS] = "access",
		[RDMAMSG_CAUSE_SILENT] = "silent",
		[RDMAMSG_CAUSE_REMOVED] = "removed",
		[RDMAMSG_CAUSE_RESOURCES] = "resources",
		[RDMAMSG_CAUSE_AUTH] = "auth",
		[RDMAMSG_CAUSE_CRC] = "crc",
	};

	return NAME_OF(names, cause);
}

const char *rdmamsg_state_name(enum rdmamsg_state state)
{
	static const char *const names[] = {
		[RDMAMSG_CONNECTING] = "connecting",
		[RDMAMSG_CONNECTED] = "connected",
		[RDMAMSG_CLOSING] = "closing",
		[RDMAMSG_CLOSED] = "closed",
	};

	return NAME_OF(names, state);
}

const char *rdmamsg_version(void)
{
	return DOTTED(RDMAMSG_VERSION_MAJOR, RDMAMSG_VERSION_MINOR,
		      RDMAMSG_VERSION_PATCH);
}
