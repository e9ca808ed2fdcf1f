/* SPDX-License-Identifier: BSD-2-Clause */
/* The client: it connects, and sends its arguments in turn. */
#include "client.h"
#include "../output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

#define CONNECT_MS	15000
#define CLOSE_MS	5000

int client_complain(struct client *c, const char *path, const char *text)
{
	char clean[COPY_PATH_MAX + 1];

	bar_clear(&c->bar);
	snprintf(clean, sizeof(clean), "%s", path);
	fprintf(stderr, "rdmamsg-copy: %s: %s\n",
		shown_name(copy_printable(clean)), text);
	return 1;
}

int client_step(struct client *c)
{
	int ret = rdmamsg_wait(c->ctx, -1);

	if (ret < 0 && ret != -EINTR)
		return ret;
	return rdmamsg_ep_state(c->ep) == RDMAMSG_CLOSED ? -ENOTCONN : 0;
}

/* ---- the connection --------------------------------------------------- */

static void on_stalled(struct rdmamsg_ep *ep, uint32_t silent_ms)
{
	struct client *c = rdmamsg_ep_user(ep);

	bar_clear(&c->bar);
	fprintf(stderr, "rdmamsg-copy: %s has not answered for %u s, waiting\n",
		c->job->host, silent_ms / 1000);
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *event)
{
	struct client *c = rdmamsg_ep_user(ep);

	if (event->change != RDMAMSG_PATH_CHANGE_DOWN &&
	    event->change != RDMAMSG_PATH_CHANGE_RESUMED)
		return;
	bar_clear(&c->bar);
	fprintf(stderr, "rdmamsg-copy: %s: connection %s: %s\n", c->job->host,
		rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, event->change),
		event->text);
}

/*
 * Notes the reason of a rejection, from the data that came with it.
 */
static void rejected(struct client *c, const char *said)
{
	static const char refusal[] = "this is " COPY_NAME;

	if (!strncmp(said, refusal, sizeof(refusal) - 1))
		snprintf(c->why, sizeof(c->why), "the server has version %s of "
			 "the protocol, this program version " COPY_VERSION
			 ": install the same rdmamsg on both hosts",
			 said + sizeof(refusal) - 1);
	else
		snprintf(c->why, sizeof(c->why), "rejected by the program that "
			 "listens on port %s, which says '%s'", c->job->port,
			 said);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct client *c = rdmamsg_ep_user(ep);
	char said[RDMAMSG_HELLO_DATA_MAX + 1] = "";

	if (why->cause == RDMAMSG_CAUSE_REFUSED) {
		snprintf(c->why, sizeof(c->why), "%s: start 'rdmamsg-copy "
			 "server DIR' there, or name its port with -p",
			 why->text);
	} else if (why->cause == RDMAMSG_CAUSE_REJECTED && why->data_len) {
		memcpy(said, why->data, why->data_len < sizeof(said) ?
		       why->data_len : sizeof(said) - 1);
		rejected(c, copy_printable(said));
	} else {
		snprintf(c->why, sizeof(c->why), "%s", why->text);
	}
}

/* Returns true if the setup data names a server of this version. */
static bool known(const struct client *c)
{
	size_t len;
	const void *data = rdmamsg_ep_peer_data(c->ep, &len);

	return len == sizeof(COPY_HELLO) - 1 && !memcmp(data, COPY_HELLO, len);
}

static int dial(struct client *c)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on),
		.on_message = client_message,
		.on_complete = client_sent,
		.on_stalled = on_stalled,
		.on_path = on_path,
		.on_closed = on_closed,
	};
	const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .host = c->job->other,
		.timeout_ms = COPY_DOWN_MS,
	};
	const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .recv_depth = COPY_WINDOW,
		.peer_timeout_ms = COPY_SILENCE_MS,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts),
		.user = c,
		.handlers = &on,
		.timeout_ms = CONNECT_MS,
		.hello_data = COPY_HELLO,
		.hello_data_len = sizeof(COPY_HELLO) - 1,
		.max_msg_size = COPY_RESULT_MAX,
		.failover = c->job->other ? &failover : NULL,
		.tuning = &tuning,
	};

	if (rdmamsg_connect_wait(c->ctx, c->job->host, c->job->port, &opts, -1,
				 &c->ep)) {
		fprintf(stderr, "rdmamsg-copy: %s: %s\n", c->job->host,
			c->why[0] ? c->why : rdmamsg_error());
		return -ENOTCONN;
	}
	if (known(c))
		return 0;
	fprintf(stderr, "rdmamsg-copy: %s: no server of rdmamsg-copy listens "
		"on port %s: start 'rdmamsg-copy server DIR' there, or name "
		"its port with -p\n", c->job->host, c->job->port);
	rdmamsg_ep_abort(c->ep);
	rdmamsg_ep_release(c->ep);
	return -EPROTO;
}

/* Returns the reason of the connection's end, once it has ended. */
static const char *closed_text(struct client *c)
{
	int ret = 0;

	while (rdmamsg_ep_state(c->ep) != RDMAMSG_CLOSED &&
	       (ret >= 0 || ret == -EINTR))
		ret = rdmamsg_wait(c->ctx, -1);
	return rdmamsg_ep_reason(c->ep)->text;
}

/* ---- the program ------------------------------------------------------ */

static int send_all(struct client *c, char **files, int count)
{
	int failed = 0;

	for (int i = 0; i < count; i++) {
		failed += tree_send(c, files[i]);
		if (client_connected(c))
			continue;
		fprintf(stderr, "rdmamsg-copy: %s: %s\n", c->job->host,
			closed_text(c));
		if (i + 1 < count)
			fprintf(stderr, "rdmamsg-copy: %d more not copied\n",
				count - i - 1);
		failed += count - i - 1;
		break;
	}
	return failed;
}

/* Moves the sendable arguments to the front. Returns their number. */
static int check_all(struct client *c, char **files)
{
	int good = 0;

	for (int i = 0; i < c->job->count; i++)
		if (tree_check(c, c->job->files[i]))
			files[good++] = c->job->files[i];
	return good;
}

int copy_client(const struct copy_job *job)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .key_file = job->key_file,
	};
	struct client c = { .job = job };
	int count = check_all(&c, job->files), failed = job->count - count;

	/* check_all() has printed an error for each argument */
	if (!count)
		return 1;
	if (rdmamsg_open(&c.ctx, &opts)) {
		fprintf(stderr, "rdmamsg-copy: %s\n", rdmamsg_error());
		return 1;
	}
	if (dial(&c)) {
		failed = job->count;
	} else {
		failed += send_all(&c, job->files, count);
		/*
		 * all answers are there, so the result of the close does not
		 * matter
		 */
		(void)rdmamsg_ep_close_wait(c.ep, CLOSE_MS);
	}
	rdmamsg_close(c.ctx);
	return failed ? 1 : 0;
}
