/* SPDX-License-Identifier: BSD-2-Clause */
#include "thread.h"

void start_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	assert_int_equal(pthread_create(thread, NULL, fn, arg), 0);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	int ret = rdmamsg_run(w->ctx);

	if (ret)
		note("rdmamsg_run: %d, %s", ret, rdmamsg_error());
	return NULL;
}

void worker_check(const struct worker *w)
{
	if (!pthread_equal(w->thread, pthread_self()))
		note("a callback in the wrong thread");
}

static void worker_connected(struct rdmamsg_ep *ep)
{
	struct worker *w = rdmamsg_ep_user(ep);

	worker_check(w);
	w->connected++;
}

static void worker_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct worker *w = rdmamsg_ep_user(ep);

	worker_check(w);
	w->echoed++;
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL)) {
		note("echo: %s", rdmamsg_error());
		rdmamsg_msg_free(msg);
	}
}

static void worker_closed(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why)
{
	struct worker *w = rdmamsg_ep_user(ep);

	worker_check(w);
	w->closed++;
	if (why->error)
		note("worker: %s", why->text);
}

void worker_open(struct worker *w, const struct rdmamsg_options *opts)
{
	memset(w, 0, sizeof(*w));
	w->on = (struct rdmamsg_ep_handlers) {
		.size = sizeof(w->on), .on_connected = worker_connected,
		.on_message = worker_message, .on_closed = worker_closed,
	};
	w->opts = (struct rdmamsg_ep_options) {
		.size = sizeof(w->opts), .user = w, .handlers = &w->on,
		.send_queue = 1000, .timeout_ms = WAIT_MS,
		.close_timeout_ms = WAIT_MS,
	};
	if (rdmamsg_open(&w->ctx, opts))
		fail_msg("rdmamsg_open: %s", rdmamsg_error());
}

void worker_listen(struct worker *w)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &w->opts,
	};

	if (rdmamsg_listen(w->ctx, test_addr(), "0", &opts, &w->listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(w->listener, w->port);
}

void worker_start(struct worker *w)
{
	start_thread(&w->thread, worker_main, w);
}

void worker_wait_closed(struct worker *w, unsigned int count)
{
	WAIT_FOR(w->closed >= count);
}

void worker_end(struct worker *w)
{
	rdmamsg_stop(w->ctx);
	pthread_join(w->thread, NULL);
	/* the remaining callbacks run in this thread */
	w->thread = pthread_self();
	rdmamsg_close(w->ctx);
	check_notes();
}

void client_connect(struct end *c, const char *port)
{
	if (rdmamsg_connect(c->ctx, test_addr(), port, &c->opts, &c->ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(c->connected || c->closed);
	if (c->closed)
		fail_msg("not connected: %s", c->why.text);
}

void client_echo(struct end *c, enum how how, size_t len, uint32_t tag)
{
	int ret;

	/* the peer is the worker, not the server of a pair */
	while ((ret = end_send(c, how, len, tag)) == -EAGAIN)
		test_pump(100);
	assert_int_equal(ret, 0);
	end_expect(c, len, tag);
}

void client_close(struct end *c)
{
	rdmamsg_ep_close(c->ep);
	WAIT_FOR(c->closed);
	if (c->why.error)
		fail_msg("closed: %s", c->why.text);
	assert_int_equal(c->received, c->expected_count);
	c->closed = c->connected = 0;
	c->received = c->expected_count = 0;
}
