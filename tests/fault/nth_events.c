/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios of device events, which the test fakes. */
#include "base/ctx.h"
#include "base/list.h"
#include "device/async.h"
#include "device/device.h"
#include "session/ep.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <infiniband/verbs.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#include <string.h>

#include "faulty.h"
#include "nth.h"

static void fake(const struct ibv_async_event *ev)
{
	struct list *n;

	for (int i = 0; i < CTXS; i++) {
		if (!ctxs[i])
			continue;
		list_for_each(n, &ctxs[i]->devices->devs) {
			const struct dev *dev = list_entry(n, struct dev, node);

			if (!dev->device)
				continue;
			faulty_async_event(ev);
			rdmamsg__async_read(ctxs[i], dev->device);
			return;
		}
	}
	/* no context has a device, so none gets the event */
	reported++;
}

static void fake_event(enum ibv_event_type type, struct rdmamsg_ep *ep)
{
	struct ibv_async_event ev = { .event_type = type };

	if (ep)
		ev.element.qp = ep->lane.hot.qp;
	else
		ev.element.port_num = 1;
	fake(&ev);
}

/* Fakes events of objects that the program created on the device itself. */
static void fake_foreign(void)
{
	static struct ibv_srq srq = { .srq_context = &srq };
	static struct ibv_cq cq = { .cq_context = &cq };
	struct ibv_async_event ev = {
		.element.srq = &srq, .event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
	};

	fake(&ev);
	ev.event_type = IBV_EVENT_SRQ_ERR;
	fake(&ev);
	ev.element.cq = &cq;
	ev.event_type = IBV_EVENT_CQ_ERR;
	fake(&ev);
}

static bool events_seen(void)
{
	return events >= 2;
}

static bool event_seen(void)
{
	return events >= 1;
}

static void do_async(void)
{
	events = 0;
	fake_foreign();
	fake_event(IBV_EVENT_PORT_ERR, NULL);
	/* without memory an event is lost, and the log has an error */
	if (!drive(events_seen, 200))
		reported++;
	if (strstr(ends[CLIENT].why.text, "device reports") ||
	    strstr(ends[SERVER].why.text, "device reports"))
		fail("closed by what does not concern it");
	/* the context that reads events closes, and another one takes over */
	ends[CLIENT].expected_end = true;
	close_ctx(CLIENT);
	events = 0;
	fake_event(IBV_EVENT_PORT_ACTIVE, NULL);
	if (!drive(event_seen, 200))
		reported++;
	if (!drive(is_closed, BODY_MS))
		fail("the peer's context closed, and nothing came of it");
}

static void do_qp_fatal(void)
{
	fake_event(IBV_EVENT_QP_FATAL, ends[SERVER].ep);
	if (!drive(is_closed, 500)) {
		reported++;		/* missing memory loses the event */
		rdmamsg_ep_abort(ends[SERVER].ep);
		texts_start();		/* there may be no endpoint */
	}
	if (!drive(is_closed, BODY_MS))
		fail("QP_FATAL, and nothing came of it");
}

static void do_removed(void)
{
	fake_event(IBV_EVENT_DEVICE_FATAL, NULL);
	if (!drive(is_closed, 500)) {
		reported++;
		rdmamsg_ep_abort(ends[SERVER].ep);
		texts_start();		/* there may be no endpoint */
	}
	if (!drive(is_closed, BODY_MS))
		fail("DEVICE_FATAL, and nothing came of it");
}

bool migrated;

/* Returns true if both ends are armed after this many migrations, or neither. */
static bool is_settled_after(uint32_t migrations)
{
	bool all = true;

	for (int i = 0; i < 2; i++) {
		struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };

		if (!ends[i].ep)
			return true;
		if (rdmamsg_ep_path_query(ends[i].ep, &path))
			fail("rdmamsg_ep_path_query: %s", rdmamsg_error());
		if (path.state == RDMAMSG_PATH_NONE && !path.text[0])
			fail("no alternate path, and no reason");
		if (path.state == RDMAMSG_PATH_NONE ||
		    path.state == RDMAMSG_PATH_MIGRATED)
			return true;
		all &= path.state == RDMAMSG_PATH_ARMED &&
		       path.migrations == migrations;
	}
	return all;
}

static bool is_settled(void)
{
	return is_settled_after(0);
}

static bool is_settled_again(void)
{
	return is_settled_after(1);
}

/* Without an alternate path the connection works all the same. */
static void do_migrate(void)
{
	do_connect();
	if (!drive(is_settled, BODY_MS))
		fail("the alternate path is neither armed nor given up");
	migrated = ends[CLIENT].ep &&
		   !told(rdmamsg_ep_migrate(ends[CLIENT].ep, NULL));
	if (migrated && !drive(is_settled_again, BODY_MS))
		fail("migrated, and neither armed again nor given up");
	if (!ends[CLIENT].ep || !ends[SERVER].ep)
		return;
	send_items(&ends[CLIENT], 1, 5);
	if (!drive(is_exchanged, BODY_MS))
		fail("exchanging is not over");
}

/* The lane of the client is lost, with messages of all kinds under way. */
static void do_resume(void)
{
	struct rdmamsg_ep *ep = ends[CLIENT].ep;

	send_items(&ends[CLIENT], 0, 5);
	send_items(&ends[SERVER], 0, 5);
	if (ends[CLIENT].ep == ep && ep) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_TRANSPORT, -ETIMEDOUT,
				   "the test has cut the lane");
		rdmamsg__ep_kill(ep);
	}
	send_items(&ends[CLIENT], 6, 8);
	send_items(&ends[SERVER], 6, 8);
	outlast_shortage();
}

/* Only the server runs, until it has the client's first message. */
static void serve_alone(void)
{
	struct pollfd fd = { rdmamsg_fd(ctxs[SERVER]), POLLIN, 0 };

	while (ends[SERVER].ep && !ends[CLIENT].items[0].received &&
	       !failure[0]) {
		if (poll(&fd, 1, BODY_MS) != 1 ||
		    rdmamsg_process(ctxs[SERVER]) < 0)
			fail("the server does not receive");
	}
}

/* The client finds its failed request and the peer's answer together. */
static void do_resume_late(void)
{
	send_items(&ends[CLIENT], 0, 2);
	serve_alone();
	send_items(&ends[SERVER], 0, 5);
	outlast_shortage();
}

const struct scenario event_scenarios[] = {
	{ "async", CONNECTED, do_async },
	{ "qp-fatal", CONNECTED, do_qp_fatal },
	{ "removed", CONNECTED, do_removed },
	{ "migrate", LISTENING, do_migrate, .failover = true,
	  .calls = " query_port query_pkey query_gid query_qp modify_qp "
		   "get_async_event calloc post_send " },
	{ "resume", CONNECTED, do_resume, .lanes = true },
	{ "resume-late", CONNECTED, do_resume_late, .lanes = true,
	  .calls = " wc_send " },
	{ NULL },
};
