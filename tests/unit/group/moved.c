/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the address that a group is joined from disappears. The members
 * join again from another one, and with repair nothing is missing. The addresses
 * of the host are made up.
 */
#include "members.h"
#include "soft/control/soft_ctl.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

static struct ifaddrs list[2];
static struct sockaddr_in address[2];

int __wrap_getifaddrs(struct ifaddrs **ret);
void __wrap_freeifaddrs(struct ifaddrs *addrs);

int __wrap_getifaddrs(struct ifaddrs **ret)
{
	*ret = list;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *addrs)
{
}

/* Loopback, and one that comes and goes. */
static void set_addresses(const char *second)
{
	const char *text[] = { "127.0.0.1", second };

	for (int i = 0; i < 2; i++) {
		address[i].sin_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text[i],
					   &address[i].sin_addr), 1);
		list[i] = (struct ifaddrs){
			.ifa_next = i ? NULL : &list[1],
			.ifa_name = (char *)(uintptr_t)"lo",
			.ifa_flags = IFF_UP,
			.ifa_addr = (struct sockaddr *)&address[i],
		};
	}
}

static void address__gone_IS_LEFT_AND_NOTHING_LACKS(void **state)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };
	struct soft_ctl *ctl;

	set_addresses("127.7.7.1");
	join_from = "127.7.7.1";
	join_all(RDMAMSG_GROUP_REPAIR);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	publish(20);
	set_addresses("127.7.7.2");
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
					IBV_EVENT_GID_CHANGE, 1), 0);
	publish(20);
	for (int i = 0; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].losses == 1);
		assert_int_equal(all[i].why.error, -ENETRESET);
		WAIT_FOR(all[i].joined == 2);
	}
	publish(20);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].messages, published);
		assert_false(all[i].bad);
	}
	assert_int_equal(rdmamsg_group_query(all[0].group, &info), 0);
	assert_true(info.joined);
	/* told again, and nothing has changed */
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
					IBV_EVENT_GID_CHANGE, 1), 0);
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].losses, 1);
	}
	soft_ctl_close(ctl);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address__gone_IS_LEFT_AND_NOTHING_LACKS),
	};

	return run_members("moved", tests, sizeof(tests) / sizeof(*tests));
}
