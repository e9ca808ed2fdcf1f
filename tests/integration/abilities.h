/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abilities that devices are known to have. A test that asks the library
 * whether there is a capability would skip where the library does not see it.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_ABILITIES_H
#define RDMAMSG_TESTS_INTEGRATION_ABILITIES_H

#include <rdmamsg/device.h>

/*
 * Skips the test case, because the device does not have the capability in this
 * way. Fails the test case if the device is known to have it.
 */
void skip_without(enum rdmamsg_cap_id cap, enum rdmamsg_cap_how how,
		  const char *why);

#endif
