/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of devices, from the index and GUID that the kernel reports. */
#include "device/ucm.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define KNOWN_MAX	16

/* Protects the cache. Listing devices is slow, and can block. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known {
	uint32_t index;			/* the kernel never reuses an index */
	__be64 guid;
	struct id_device device;
} known[KNOWN_MAX];
static unsigned int known_count;	/* entries ever added */

static bool recall(uint32_t index, __be64 guid, struct id_device *ret)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < KNOWN_MAX && i < known_count; i++)
		if (known[i].index == index && known[i].guid == guid) {
			*ret = known[i].device;
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

static void remember(uint32_t index, __be64 guid,
		     const struct id_device *device)
{
	pthread_mutex_lock(&lock);
	known[known_count++ % KNOWN_MAX] = (struct known){
		index, guid, *device,
	};
	pthread_mutex_unlock(&lock);
}

static bool is_it(struct ibv_device *d, uint32_t index, __be64 guid)
{
	const struct verbs_api *v = &rdmamsg__verbs_system;
	int its = v->get_device_index(d);

	/* without an index, the GUID must do */
	return v->get_device_guid(d) == guid &&
	       (index == UCM_NO_INDEX || its < 0 || (uint32_t)its == index);
}

static int search(uint32_t index, __be64 guid, struct id_device *ret)
{
	const struct verbs_api *v = &rdmamsg__verbs_system;
	struct ibv_device **list;
	int n = 0, i = 0;

	if (rdmamsg__v_get_device_list(v, &list, &n))
		return -ENODEV;
	while (i < n && !is_it(list[i], index, guid))
		i++;
	if (i < n) {
		(void)snprintf(ret->name, sizeof(ret->name), "%s",
			       v->get_device_name(list[i]));
		ret->transport = list[i]->transport_type;
	}
	v->free_device_list(list);
	return i < n ? 0 : -ENODEV;
}

int rdmamsg__ucm_find_device(uint32_t index, __be64 guid, struct id_device *ret)
{
	int err;

	if (index != UCM_NO_INDEX && recall(index, guid, ret))
		return 0;
	err = search(index, guid, ret);
	if (!err && index != UCM_NO_INDEX)
		remember(index, guid, ret);
	return err;
}
