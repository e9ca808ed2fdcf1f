/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: processes whose soft HCAs have unlike link layers. */
#include "common.h"
#include "oob_pair.h"

#include <sys/wait.h>

#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>

#define ONLY_SOFT "only the soft HCA is of a link layer that a variable names"

static struct pair p;

/* The argument is a link layer and a port. NULL: there is no context. */
static struct rdmamsg *open_linked(char *arg, char **port)
{
	struct rdmamsg *ctx;

	*port = strchr(arg, ' ');
	*(*port)++ = 0;
	return setenv("RDMAMSG_SOFT_LINK", arg, 1) || rdmamsg_open(&ctx, NULL) ?
	       NULL : ctx;
}

static int linked(int argc, char **argv)
{
	char *port;
	struct rdmamsg *ctx = open_linked(argv[0], &port);
	struct rdmamsg_ep *ep;
	int ret;

	if (!ctx)
		return 3;
	ret = rdmamsg_connect_wait(ctx, test_addr(), port, NULL, WAIT_MS, &ep);
	say("%d %s\n", ret, ret ? rdmamsg_error() : "connected");
	if (!ret)
		ret = rdmamsg_ep_close_wait(ep, WAIT_MS);
	else
		ret = 0;
	rdmamsg_close(ctx);
	return ret ? 4 : 0;
}

/* Connects by records that are exchanged out of band. */
static int linked_oob(int argc, char **argv)
{
	char *port;
	struct rdmamsg *ctx = open_linked(argv[0], &port);
	struct rdmamsg_ep *ep;
	int ret;

	if (!ctx)
		return 3;
	ret = rdmamsg_oob_connect(ctx, test_addr(), port, NULL, &ep);
	if (ret)
		return 4;
	rdmamsg_ep_hold(ep);
	while (rdmamsg_ep_state(ep) == RDMAMSG_CONNECTING ||
	       rdmamsg_ep_state(ep) == RDMAMSG_CLOSING)
		if (rdmamsg_wait(ctx, WAIT_MS) < 0)
			return 5;
	if (rdmamsg_ep_state(ep) == RDMAMSG_CONNECTED)
		say("connected\n");
	else
		say("%s\n", rdmamsg_ep_reason(ep)->text);
	rdmamsg_close(ctx);
	rdmamsg_ep_release(ep);
	return 0;
}

static void link__of_another_kind_out_of_band_IS_THE_CAUSE(void **state)
{
	static const char *const links[] = { "ethernet", "ib" };
	const struct rdmamsg_ep_options ep = { .size = sizeof(ep) };
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
	};
	const char *own = getenv("RDMAMSG_SOFT_LINK");

	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	if (!own || !*own)
		own = links[0];
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		struct rdmamsg *ctx = test_open(NULL);
		char line[512], arg[32], port[8];
		struct rdmamsg_listener *l;
		struct child c;

		if (rdmamsg_oob_listen(ctx, test_addr(), "0", &opts, &l))
			fail_msg("rdmamsg_oob_listen: %s", rdmamsg_error());
		snprintf(arg, sizeof(arg), "%s %s", links[i],
			 listener_service(l, port));
		child_start(&c, "linked_oob", arg);
		child_line(&c, line, sizeof(line));
		if (!strstr(line, strcmp(links[i], own) ? "link layer" :
			    "connected"))
			fail_msg("%s: '%s'", links[i], line);
		assert_int_equal(child_wait(&c), 0);
		test_close(ctx);
	}
}

static void link__of_another_kind_NAMES_BOTH(void **state)
{
	static const char *const links[] = { "ethernet", "ib", "iwarp" };
	const char *own = getenv("RDMAMSG_SOFT_LINK");

	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	if (!own || !*own)
		own = links[0];
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char line[512], both[64], arg[32];
		struct child c;

		pair_init(&p, NULL);
		pair_listen(&p);
		snprintf(both, sizeof(both), "is %s here and %s there",
			 links[i], own);
		snprintf(arg, sizeof(arg), "%s %s", links[i], p.port);
		child_start(&c, "linked", arg);
		child_line(&c, line, sizeof(line));
		if (strcmp(links[i], own) ?
		    atoi(line) != -EHOSTUNREACH || !strstr(line, both) :
		    !strstr(line, "connected"))
			fail_msg("%s: '%s'", links[i], line);
		assert_int_equal(child_wait(&c), 0);
		pair_fini(&p);
	}
}

struct member {
	unsigned int joined, closed;
	struct rdmamsg_reason why;
};

static void member_joined(struct rdmamsg_group *group)
{
	((struct member *)rdmamsg_group_user(group))->joined++;
}

static void member_closed(struct rdmamsg_group *group,
			  const struct rdmamsg_reason *why)
{
	struct member *m = rdmamsg_group_user(group);

	m->closed++;
	m->why = *why;
}

static int member_join(struct rdmamsg *ctx, struct member *m, uint32_t flags,
		       const char *address, struct rdmamsg_group **ret)
{
	const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = member_joined,
		.on_closed = member_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = m, .handlers = &on,
		.flags = flags,
	};

	*m = (struct member){ 0 };
	return rdmamsg_group_join(ctx, address, &opts, ret);
}

/* The argument is 'p' or 's', or 'k' to be killed; link layer; address. */
static int grouped(int argc, char **argv)
{
	char *address = strchr(argv[0], ' ');
	const uint32_t flags = argv[0][0] == 'p' ? RDMAMSG_GROUP_PUBLISH :
			       RDMAMSG_GROUP_SUBSCRIBE;
	struct rdmamsg_group *group;
	struct rdmamsg *ctx;
	struct member m;
	int ret;

	*address++ = 0;
	if (setenv("RDMAMSG_SOFT_LINK", argv[0] + 1, 1) ||
	    rdmamsg_open(&ctx, NULL))
		return 3;
	ret = member_join(ctx, &m, flags, address, &group);
	while (!ret && !m.joined && !m.closed)
		ret = rdmamsg_wait(ctx, WAIT_MS) < 0;
	if (m.closed)
		say("%d %s\n", m.why.error, m.why.text);
	else
		say("%d %s\n", ret, ret ? rdmamsg_error() : "joined");
	if (argv[0][0] == 'k')
		(void)pause();
	rdmamsg_close(ctx);
	return 0;
}

/* Joins in a child. A member of another link layer than 'own' is refused. */
static void check_member(char role, const char *link, const char *own,
			 const char *address)
{
	char line[512], both[64], arg[64];
	struct child c;

	snprintf(both, sizeof(both), "is %s here and %s there", link, own);
	snprintf(arg, sizeof(arg), "%c%s %s", role, link, address);
	child_start(&c, "grouped", arg);
	child_line(&c, line, sizeof(line));
	if (!strcmp(link, "iwarp") ?
	    atoi(line) != -EOPNOTSUPP || !strstr(line, "iwarp") :
	    strcmp(link, own) ?
	    atoi(line) != -EHOSTUNREACH || !strstr(line, both) :
	    strcmp(line, "0 joined"))
		fail_msg("%s: '%s'", arg, line);
	assert_int_equal(child_wait(&c), 0);
}

static void group__a_killed_member_of_another_link_REFUSES_NOBODY(void **state)
{
	const char *own = getenv("RDMAMSG_SOFT_LINK");
	const bool ib = own && !strcmp(own, "ib");
	struct rdmamsg_group *group;
	static struct member m;
	struct rdmamsg *ctx;
	struct child c;
	char line[512];

	if (!test_on_soft() || (own && !strcmp(own, "iwarp"))) {
		skip_because(ONLY_SOFT);
		return;
	}
	ctx = test_open(NULL);
	child_start(&c, "grouped", ib ? "kethernet 239.3.5.9" :
		    "kib 239.3.5.9");
	child_line(&c, line, sizeof(line));
	assert_string_equal(line, "0 joined");
	assert_int_equal(kill(c.pid, SIGKILL), 0);
	assert_int_equal(child_wait(&c), SIGKILL);
	assert_int_equal(member_join(ctx, &m, 0, "239.3.5.9", &group), 0);
	WAIT_FOR(m.joined || m.closed);
	assert_int_equal(m.joined, 1);
	test_close(ctx);
}

static void group__of_another_link_NAMES_BOTH(void **state)
{
	static const char *const links[] = { "ethernet", "ib", "iwarp" };
	static const char *const addresses[] = { "239.3.5.7", "ff15::357" };
	static const uint32_t roles[] = {
		RDMAMSG_GROUP_PUBLISH, RDMAMSG_GROUP_SUBSCRIBE,
	};
	const char *own = getenv("RDMAMSG_SOFT_LINK");

	if (!test_on_soft() || (own && !strcmp(own, "iwarp"))) {
		skip_because(ONLY_SOFT);
		return;
	}
	if (!own || !*own)
		own = links[0];
	for (size_t i = 0; i < ARRAY_SIZE(addresses) * 2; i++) {
		const char *address = addresses[i / 2];
		struct rdmamsg *ctx = test_open(NULL);
		struct rdmamsg_group *group;
		static struct member m;

		assert_int_equal(member_join(ctx, &m, roles[i % 2], address,
					     &group), 0);
		WAIT_FOR(m.joined || m.closed);
		assert_int_equal(m.joined, 1);
		for (size_t k = 0; k < ARRAY_SIZE(links); k++) {
			check_member(i % 2 ? 'p' : 's', links[k], own,
				     address);
			/* another group of the other link layer is its own */
			if (strcmp(links[k], own) &&
			    strcmp(links[k], "iwarp"))
				check_member('s', links[k], links[k],
					     "239.3.5.8");
		}
		rdmamsg_group_leave(group);
		WAIT_FOR(m.closed);
		/* a member that has left, or ended, refuses nobody */
		check_member('s', links[!strcmp(own, links[0])],
			     links[!strcmp(own, links[0])], address);
		test_close(ctx);
	}
}
int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "linked", linked }, { "linked_oob", linked_oob },
		{ "grouped", grouped },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(link__of_another_kind_NAMES_BOTH),
		TEST(link__of_another_kind_out_of_band_IS_THE_CAUSE),
		TEST(group__of_another_link_NAMES_BOTH),
		TEST(group__a_killed_member_of_another_link_REFUSES_NOBODY),
	};

	return test_main(tests, roles, argc, argv);
}
