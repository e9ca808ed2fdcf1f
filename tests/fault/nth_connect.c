/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios of contexts, listeners and connecting. */
#include "base/ctx.h"
#include "session/sessions.h"

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/timer.h>

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "faulty.h"
#include "nth.h"

/* faults hit the library's sockets, not those of the scenario */
int __real_socket(int domain, int type, int protocol);
ssize_t __real_recv(int fd, void *buf, size_t len, int flags);

#define TIMERS	20	/* more than the heap has at first */

static size_t stats_bytes;
static int stats_fd;

void do_open(void)
{
	open_ctx(CLIENT);
	close_ctx(CLIENT);
}

void do_listen(void)
{
	start_listening();
	rdmamsg_listener_close(listener);
	listener = NULL;
}

static void
fault_free_caps(struct rdmamsg_device_cap_attr list[static RDMAMSG_CAPS])
{
	static struct rdmamsg_device_cap_attr before[RDMAMSG_CAPS];
	static bool known;

	/* nth runs each scenario without a fault first */
	if (!known)
		memcpy(before, list, sizeof(before));
	known = true;
	memcpy(list, before, sizeof(before));
}

/* If a query fails, the ability is absent and its reason says why. */
static void query_caps(void)
{
	struct rdmamsg_device_cap_attr now[RDMAMSG_CAPS], before[RDMAMSG_CAPS];
	int n = rdmamsg_device_caps(NULL, now, sizeof(now[0]), RDMAMSG_CAPS);

	told(n < 0 ? n : 0);
	if (n < 0)
		return;
	memcpy(before, now, sizeof(before));
	fault_free_caps(before);
	for (int i = 0; i < RDMAMSG_CAPS; i++) {
		if (now[i].how > before[i].how || !now[i].reason[0])
			fail("%s is %s with a fault, %s without: %s",
			     now[i].name,
			     rdmamsg_name(RDMAMSG_NAME_CAP_HOW, now[i].how),
			     rdmamsg_name(RDMAMSG_NAME_CAP_HOW, before[i].how),
			     now[i].reason);
		reported += strcmp(now[i].reason, before[i].reason) ||
			    memcmp(&now[i].limits, &before[i].limits,
				   sizeof(now[i].limits));
	}
}

/* A query opens the device and must close it, whatever fails. */
static void do_query(void)
{
	struct rdmamsg_device_attr list[2], attr = { .size = sizeof(attr) };
	struct rdmamsg_port_attr port = { .size = sizeof(port) };
	struct rdmamsg_gid_attr gids[2];
	uint16_t pkeys[2];
	int n = rdmamsg_devices(list, sizeof(list[0]), 2);

	told(n < 0 ? n : 0);
	for (int i = 0; i < n && i < 2; i++)
		reported += list[i].error != 0;
	told(rdmamsg_device_query(NULL, &attr));
	told(rdmamsg_port_query(NULL, 1, &port));
	n = rdmamsg_port_gids(NULL, 1, gids, sizeof(gids[0]), 2);
	told(n < 0 ? n : 0);
	n = rdmamsg_port_pkeys(NULL, 1, pkeys, 2);
	told(n < 0 ? n : 0);
	n = rdmamsg_port_find_pkey(NULL, 1, 0xffff);
	told(n < 0 ? n : 0);
	query_caps();
}

static bool is_read(void)
{
	char buf[4096];
	ssize_t n;

	while ((n = __real_recv(stats_fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		stats_bytes += (size_t)n;
	return !n;
}

/* Without descriptors a reader waits until there are some. */
static void read_stats(void)
{
	if (drive(is_read, SHORTAGE_MS))
		return;
	if (faulty_disarm())
		reported++;
	if (!drive(is_read, BODY_MS))
		fail("the reader has no end");
}

/* Without a socket or a text, the context works all the same. */
static void do_stats(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int len;

	open_ctx(CLIENT);
	if (!ctxs[CLIENT])
		return;
	len = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
		       "rdmamsg-nth-%d", (int)getpid());
	stats_fd = __real_socket(AF_UNIX, SOCK_STREAM, 0);
	stats_bytes = 0;
	if (connect(stats_fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				(size_t)len)))
		reported++;
	else
		read_stats();
	reported += stats_bytes < 1000;
	close(stats_fd);
	close_ctx(CLIENT);
}

static unsigned int expired;

static void on_timer(struct rdmamsg_timer *t, void *user)
{
	expired++;
}

static bool have_expired(void)
{
	return expired >= TIMERS;
}

/* A timer that was created expires, whatever fails. */
static void do_timers(void)
{
	struct rdmamsg_timer *timers[TIMERS] = { NULL };
	unsigned int created = 0;

	expired = 0;
	for (int i = 0; i < TIMERS; i++) {
		if (told(rdmamsg_timer_create(ctxs[CLIENT], on_timer, NULL,
					      &timers[i])))
			continue;
		created++;
		if (rdmamsg_timer_start(timers[i], 1, 0))
			fail("starting a timer: %s", rdmamsg_error());
	}
	expired = TIMERS - created;
	if (!drive(have_expired, BODY_MS))
		fail("%u timers of %u have expired", expired, TIMERS);
	for (int i = 0; i < TIMERS; i += 2)
		rdmamsg_timer_destroy(timers[i]);
	close_ctx(CLIENT);	/* frees the others */
}

/* Refused twice, or ended by the fault. */
static bool is_tried(void)
{
	return !ends[CLIENT].ep ||
	       ctxs[CLIENT]->sessions->st.connects_repeated >= 2;
}

/* Nobody listens when the request arrives. Memory keeps what the tries met. */
static void do_connect_retry(void)
{
	start_connecting();
	rdmamsg_listener_close(listener);
	listener = NULL;
	if (!drive(is_tried, BODY_MS))
		fail("connecting: neither tried again nor closed");
	ends[CLIENT].expected_end = true;
	if (ends[CLIENT].ep)
		rdmamsg_ep_abort(ends[CLIENT].ep);
}

static void do_watch(void)
{
	(void)told(rdmamsg_device_watch(ctxs[CLIENT], NULL));
}

const struct scenario connect_scenarios[] = {
	{ "query", NOTHING, do_query },
	{ "open", NOTHING, do_open },
	{ "open-stats", NOTHING, do_stats, .stats = "@rdmamsg-nth-%p" },
	{ "watch", OPEN, do_watch },
	{ "timers", OPEN, do_timers },
	{ "listen", OPEN, do_listen },
	{ "listen-joint", OPEN, do_listen, .joint = true },
	{ "connect", LISTENING, do_connect },
	{ "connect-joint", LISTENING, do_connect, .joint = true,
	  .calls = " migrate_id malloc calloc get_cm_event accept reject "
		   "create_qp epoll_ctl " },
	{ "name", LISTENING, do_connect, .by_name = true,
	  .calls = " strdup calloc pthread_create getaddrinfo " },
	{ "connect-retry", LISTENING, do_connect_retry, .patient = true },
	{ "move", LISTENING, do_connect, .moving = true,
	  .calls = " migrate_id create_event_channel malloc accept reject "
		   "create_qp mlx5_create_qp get_cm_event "
		   "epoll_ctl " },
	{ "request-key", LISTENING, do_connect, .exporting = true,
	  .calls = " calloc malloc realloc open_device alloc_pd reg_mr "
		   "create_comp_channel epoll_ctl accept reject " },
	/* the library's memory for the key, and the messages of the proofs */
	{ "connect-keyed", LISTENING, do_connect, .keyed = true,
	  .calls = " calloc malloc post_send post_recv wc_send wc_recv " },
	{ NULL },
};
