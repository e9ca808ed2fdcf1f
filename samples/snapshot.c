/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table that others follow, whenever they join:
 *
 *	snapshot publish GROUP ADDR PORT COUNT
 *	snapshot follow GROUP HOST PORT COUNT
 *
 * When somebody follows, the publisher makes COUNT changes, and publishes each
 * with its number. A follower joins the group first, and keeps the changes that
 * arrive. Then it asks the publisher over an endpoint for the table. The table
 * comes with the number of the last change in it. Of the changes that were
 * kept, the follower leaves out those up to this number, and makes the others.
 * So none is missing and none is made twice. If a change is missing later, the
 * follower asks again.
 *
 * The byte order of both hosts must be the same.
 */
#include "usage.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/group.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/timer.h>

#include <errno.h>
#include <signal.h>

#define VALUES		64
#define KEPT		4096	/* changes, while the table is on its way */
#define HISTORY		256	/* changes that the library can repeat */
#define RECV_DEPTH	256
#define CLOSE_MS	5000

struct change {
	uint32_t number;	/* from 1 */
	uint32_t index;
	uint32_t value;
};

struct table {
	uint32_t number;	/* of the last change in it */
	uint32_t values[VALUES];
};

static struct rdmamsg *ctx;
static struct rdmamsg_group *group;
static struct rdmamsg_timer *ticks;	/* of the publisher */
static struct table table;
static uint32_t count;
static int status;

static void make(const struct change *c)
{
	table.number = c->number;
	table.values[c->index % VALUES] = c->value;
}

static uint32_t sum(void)
{
	uint32_t ret = table.number;

	for (int i = 0; i < VALUES; i++)
		ret = ret * 31 + table.values[i];
	return ret;
}

static void stop(int failed)
{
	status = failed;
	rdmamsg_stop(ctx);
}

static void on_group_closed(struct rdmamsg_group *which,
			    const struct rdmamsg_reason *why)
{
	(void)which;
	group = NULL;
	if (!why->error)
		return;
	fprintf(stderr, "snapshot: %s\n", why->text);
	stop(1);
}

/* ---- the publisher ---------------------------------------------------- */

/*
 * A change that cannot be published now is not made, and the next tick makes
 * another: -EAGAIN, or -ENOTCONN before the group is joined.
 */
static void on_tick(struct rdmamsg_timer *timer, void *user)
{
	const struct change c = {
		table.number + 1, rand() % VALUES, rand(),
	};
	int ret = rdmamsg_group_publish(group, &c, sizeof(c));

	(void)user;
	if (ret == -EAGAIN || ret == -ENOTCONN)
		return;
	if (!ret)
		make(&c);
	if (!ret && table.number % 100 == 0)
		printf("%u changes\n", table.number);
	if (!ret && table.number == count)
		printf("the sum is %08x\n", sum());
	/* an error: the group is left */
	if (ret || table.number == count)
		rdmamsg_timer_stop(timer);
}

static void on_asked(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
	if (!table.number)
		rdmamsg_timer_start(ticks, 1, 1);
	/* -EAGAIN: the follower asks faster than it reads */
	if (rdmamsg_send(ep, &table, sizeof(table), 0, NULL) == -EAGAIN)
		rdmamsg_ep_abort(ep);
}

static void on_signal(int sig)
{
	(void)sig;
	rdmamsg_stop(ctx);
}

static void publish(const char *address, const char *addr, const char *port)
{
	static const struct rdmamsg_group_handlers of_group = {
		.size = sizeof(of_group), .on_closed = on_group_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &of_group, .source = addr,
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		.history = HISTORY,
	};
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_asked,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .send_queue = 16,
	};
	const struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .ep = &ep,
	};
	struct rdmamsg_listener *listener;

	if (rdmamsg_group_join(ctx, address, &opts, &group) ||
	    rdmamsg_listen(ctx, addr, port, &listen, &listener) ||
	    rdmamsg_timer_create(ctx, on_tick, NULL, &ticks))
		errx(1, "%s", rdmamsg_error());
	printf("listening on port %u\n", rdmamsg_listener_port(listener));
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
}

/* ---- a follower ------------------------------------------------------- */

static struct {
	struct rdmamsg_ep *ep;
	const char *address;		/* of the group */
	bool waiting;			/* for the table */
	struct change kept[KEPT];
	unsigned int nr_kept;
} me;

static void ask(void)
{
	if (me.waiting)
		return;
	me.waiting = true;
	if (rdmamsg_send(me.ep, NULL, 0, 0, NULL))
		errx(1, "%s", rdmamsg_error());
}

static void follow(const struct change *c)
{
	if (c->number <= table.number)
		return;		/* the table has it */
	if (c->number != table.number + 1)
		ask();
	else
		make(c);
}

static void end_at_count(void)
{
	if (table.number != count || me.waiting)
		return;
	printf("the sum is %08x\n", sum());
	stop(0);
}

/* If too many are kept, one is missing, and the follower asks again. */
static void on_change(struct rdmamsg_group *which,
		      const struct rdmamsg_group_message *msg)
{
	struct change c;

	(void)which;
	if (msg->len != sizeof(c))
		return;
	memcpy(&c, msg->data, sizeof(c));
	if (!me.waiting)
		follow(&c);
	else if (me.nr_kept < KEPT)
		me.kept[me.nr_kept++] = c;
	end_at_count();
}

static void on_table(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_len(msg) != sizeof(table)) {
		rdmamsg_ep_abort(ep);
	} else {
		memcpy(&table, rdmamsg_msg_data(msg), sizeof(table));
		printf("the table has %u changes, %u more have come\n",
		       table.number, me.nr_kept);
		me.waiting = false;
		for (unsigned int i = 0; i < me.nr_kept; i++)
			follow(&me.kept[i]);
		me.nr_kept = 0;
	}
	rdmamsg_msg_free(msg);
	end_at_count();
}

/* Once more after each on_lost. What is published from now on arrives. */
static void on_joined(struct rdmamsg_group *which)
{
	(void)which;
	ask();
}

static void on_gap(struct rdmamsg_group *which,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	(void)which, (void)sender;
	printf("%u changes are lost\n", last - first + 1);
	ask();
}

/* The group is joined on the device that reaches the publisher. */
static void on_connected(struct rdmamsg_ep *ep)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined, .on_gap = on_gap,
		.on_message = on_change, .on_closed = on_group_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.device = rdmamsg_ep_device_name(ep),
		.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR,
		.recv_depth = RECV_DEPTH,
	};

	if (rdmamsg_group_join(ctx, me.address, &opts, &group))
		errx(1, "%s", rdmamsg_error());
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	(void)ep;
	if (table.number == count && !me.waiting)
		return;
	fprintf(stderr, "snapshot: %s\n", why->text);
	stop(1);
}

static void begin(const char *address, const char *host, const char *port)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
		.on_message = on_table, .on_closed = on_closed,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	me.address = address;
	if (rdmamsg_connect(ctx, host, port, &opts, &me.ep))
		errx(1, "%s", rdmamsg_error());
}

int main(int argc, char **argv)
{
	usage(argc, argv, "snapshot publish GROUP ADDR PORT COUNT | "
	      "snapshot follow GROUP HOST PORT COUNT", 5, 5);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	count = strtoul(argv[5], NULL, 10);
	if (!strcmp(argv[1], "publish"))
		publish(argv[2], argv[3], argv[4]);
	else if (!strcmp(argv[1], "follow"))
		begin(argv[2], argv[3], argv[4]);
	else
		errx(2, "'%s' is neither publish nor follow; see --help",
		     argv[1]);
	rdmamsg_run(ctx);
	status |= rdmamsg_shutdown_wait(ctx, CLOSE_MS) != 0;
	rdmamsg_close(ctx);
	return status;
}
