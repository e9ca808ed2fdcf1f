/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls and answers: rpc serve ADDR PORT, and rpc call HOST PORT CALL...
 * The client makes all calls at once. The tag of a message is the number of its
 * call, so answers come in any order. A CALL is a function and its argument:
 *
 *	'upper TEXT'		answers with the text in capitals
 *	'sleep MS'		answers after that time
 *	'100:sleep 5000'	with a deadline of 100 ms; 60000 without
 *	'cancel:sleep 5000'	and cancels it at once
 *
 * A call ends once, with an answer, at its deadline, when it is cancelled, or
 * with the connection. If the client gives up a request that waits in the send
 * queue, the server never gets it. Otherwise the client sends an empty message
 * with the number, the server stops, and an answer that comes late is dropped.
 */
#include "usage.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/timer.h>

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>

#define CALLS		1024	/* of a connection, in flight */
#define TEXT		256	/* bytes of a request or an answer */
#define DEADLINE_MS	60000
#define CLOSE_MS	5000

static struct rdmamsg *ctx;

/* ---- the server ------------------------------------------------------- */

/* A call that takes time. */
struct job {
	struct job *next;
	struct rdmamsg_ep *ep;
	struct rdmamsg_timer *timer;
	uint32_t number;
};

static struct job *jobs;

/* A '+' begins a result, and a '-' an error. */
static void answer(struct rdmamsg_ep *ep, uint32_t number, const char *text)
{
	/* -EAGAIN: the client has more than CALLS calls */
	if (rdmamsg_send(ep, text, strlen(text), number, NULL) == -EAGAIN)
		rdmamsg_ep_abort(ep);
}

static void job_end(struct job **at)
{
	struct job *j = *at;

	*at = j->next;
	rdmamsg_timer_destroy(j->timer);
	free(j);
}

/* Ends the job with this number, or with 0 all jobs of the endpoint. */
static void jobs_end(struct rdmamsg_ep *ep, uint32_t number)
{
	struct job **at = &jobs;

	while (*at)
		if ((*at)->ep == ep && (!number || (*at)->number == number))
			job_end(at);
		else
			at = &(*at)->next;
}

static void on_awake(struct rdmamsg_timer *timer, void *user)
{
	struct job *j = user;

	(void)timer;
	answer(j->ep, j->number, "+awake");
	jobs_end(j->ep, j->number);
}

static void sleep_for(struct rdmamsg_ep *ep, uint32_t number, uint32_t ms)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j || rdmamsg_timer_create(ctx, on_awake, j, &j->timer)) {
		free(j);
		answer(ep, number, "-no memory");
		return;
	}
	j->ep = ep;
	j->number = number;
	j->next = jobs;
	jobs = j;
	rdmamsg_timer_start(j->timer, ms, 0);
}

static void run(struct rdmamsg_ep *ep, uint32_t number, char *text)
{
	if (!*text) {
		printf("call %u is cancelled\n", number);
		jobs_end(ep, number);
	} else if (!strncmp(text, "sleep ", 6)) {
		sleep_for(ep, number, atoi(text + 6));
	} else if (!strncmp(text, "upper ", 6)) {
		text[5] = '+';
		for (char *p = text + 6; *p; p++)
			*p = toupper((unsigned char)*p);
		answer(ep, number, text + 5);
	} else {
		answer(ep, number, "-no such function");
	}
}

static void on_request(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	char text[TEXT + 1] = "";

	/* max_msg_size: the text fits */
	memcpy(text, rdmamsg_msg_data(msg), rdmamsg_msg_len(msg));
	run(ep, rdmamsg_msg_tag(msg), text);
	rdmamsg_msg_free(msg);
}

static void on_gone(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	(void)why;
	jobs_end(ep, 0);
}

static void on_signal(int sig)
{
	(void)sig;
	rdmamsg_stop(ctx);
}

static int serve(const char *addr, const char *port)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_request,
		.on_closed = on_gone,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .send_queue = CALLS,
		.max_msg_size = TEXT,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
	};
	struct rdmamsg_listener *listener;
	int failed;

	if (rdmamsg_listen(ctx, addr, port, &opts, &listener))
		errx(1, "%s", rdmamsg_error());
	printf("listening on port %u\n", rdmamsg_listener_port(listener));
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	rdmamsg_run(ctx);
	failed = rdmamsg_shutdown_wait(ctx, CLOSE_MS);
	return failed != 0;
}

/* ---- the client ------------------------------------------------------- */

/*
 * The address of a call is the cookie of its request. So a program that frees
 * calls waits for on_complete, too.
 */
struct call {
	const char *text;
	uint32_t deadline_ms;
	bool cancel;
	bool over;
	struct rdmamsg_timer *timer;
};

static struct {
	struct rdmamsg_ep *ep;
	struct call calls[CALLS + 1];	/* the number of a call is its place */
	uint32_t count;
	uint32_t over;
	int status;
} me;

static void finish(struct call *c, const char *how, const char *text, int len)
{
	printf("%s: %s%.*s\n", c->text, how, len, text);
	c->over = true;
	rdmamsg_timer_destroy(c->timer);
	if (++me.over == me.count)
		rdmamsg_ep_close(me.ep);
}

static void give_up(struct call *c, const char *why)
{
	const char *how = "never sent";

	/* an error: the server has the request, or will have it */
	if (rdmamsg_ep_cancel(me.ep, c)) {
		rdmamsg_send(me.ep, "", 0, c - me.calls, NULL);
		how = "the server may have done it";
	}
	finish(c, why, how, TEXT);
}

static void on_deadline(struct rdmamsg_timer *timer, void *user)
{
	(void)timer;
	give_up(user, "the deadline is over; ");
}

static void call(struct call *c)
{
	if (rdmamsg_timer_create(ctx, on_deadline, c, &c->timer) ||
	    rdmamsg_timer_start(c->timer, c->deadline_ms, 0) ||
	    rdmamsg_send(me.ep, c->text, strlen(c->text), c - me.calls, c))
		finish(c, "failed: ", rdmamsg_error(), INT_MAX);
	else if (c->cancel)
		give_up(c, "cancelled; ");
}

static void on_connected(struct rdmamsg_ep *ep)
{
	(void)ep;
	for (uint32_t i = 1; i <= me.count; i++)
		call(&me.calls[i]);
}

static void on_answer(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	const char *text = rdmamsg_msg_data(msg);
	uint32_t number = rdmamsg_msg_tag(msg);
	int len = rdmamsg_msg_len(msg);

	if (!number || number > me.count || !len)
		rdmamsg_ep_abort(ep);
	else if (!me.calls[number].over)
		finish(&me.calls[number], *text == '-' ? "error: " : "",
		       text + 1, len - 1);
	rdmamsg_msg_free(msg);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	(void)ep;
	me.status = why->cause != RDMAMSG_CAUSE_CLOSED;
	for (uint32_t i = 1; i <= me.count; i++)
		if (!me.calls[i].over)
			finish(&me.calls[i], "failed: ", why->text, INT_MAX);
	rdmamsg_stop(ctx);
}

/* Takes [MS:]TEXT or cancel:TEXT apart. */
static void parse(struct call *c, const char *arg)
{
	const char *colon = strchr(arg, ':');

	c->text = colon ? colon + 1 : arg;
	c->cancel = !strncmp(arg, "cancel:", 7);
	c->deadline_ms = colon && !c->cancel ? atoi(arg) : DEADLINE_MS;
	if (strlen(c->text) > TEXT || !*c->text)
		errx(2, "'%s': a call has 1 to %d characters", arg, TEXT);
}

static int client(const char *host, const char *port, char **args, int count)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
		.on_message = on_answer, .on_closed = on_closed,
	};
	const struct rdmamsg_ep_options opts = {
		/* room for each request, and one to cancel it */
		.size = sizeof(opts), .handlers = &on, .send_queue = 2 * CALLS,
	};

	if (count < 1 || count > CALLS)
		errx(2, "1 to %d calls; see --help", CALLS);
	me.count = count;
	for (int i = 0; i < count; i++)
		parse(&me.calls[i + 1], args[i]);
	if (rdmamsg_connect(ctx, host, port, &opts, &me.ep))
		errx(1, "%s", rdmamsg_error());
	rdmamsg_run(ctx);
	return me.status;
}

int main(int argc, char **argv)
{
	int status;

	usage(argc, argv, "rpc serve ADDR PORT | rpc call HOST PORT CALL...",
	      3, INT_MAX);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	if (!strcmp(argv[1], "serve"))
		status = serve(argv[2], argv[3]);
	else if (!strcmp(argv[1], "call"))
		status = client(argv[2], argv[3], argv + 4, argc - 4);
	else
		errx(2, "'%s' is neither serve nor call; see --help", argv[1]);
	rdmamsg_close(ctx);
	return status;
}
