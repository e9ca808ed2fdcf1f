/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abilities that devices are known to have. A test that asks the library
 * whether there is a capability would skip where the library does not see it.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_ABILITIES_H
#define RDMAMSG_TESTS_INTEGRATION_ABILITIES_H

#include <stdbool.h>
#include <rdmamsg/device.h>

/*
 * Returns 'seen'. Fails the test case if the library does not see the
 * capability, and the device is known to have it in this way.
 */
bool test_ability(enum rdmamsg_cap_id cap, enum rdmamsg_cap_how how, bool seen);
/* Asks the library. */
bool test_has(enum rdmamsg_cap_id cap, enum rdmamsg_cap_how how);

#endif
