/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server has one thread for all clients, and one for each file that is
 * being forced to the disk, which may take long.
 */
#include "copy.h"
#include "../output.h"

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX	32
#define IDLE_MAX	120	/* seconds without a message */
#define AGAIN_FIRST_MS	50	/* pause before a try to listen again */
#define AGAIN_LAST_MS	2000

enum client_state {
	IDLE,		/* waits for BEGIN */
	WRITING,	/* waits for DATA, END or CANCEL */
	COMMITTING,	/* a thread has the file, and no message is due */
	SKIPPING,	/* the file failed; ignores all until BEGIN */
};

LIST_HEAD(clients, client);

struct server {
	struct rdmamsg *ctx;
	int dir;
	struct clients clients;
	int count; /* clients, with those whose thread still runs */
	int committing;

	struct rdmamsg_listener *listener;	/* NULL: is to listen again */
	const char *host, *service;	/* NULL: any address */
	char port[8];
	bool lost;		/* the listener has failed */
	int wait_ms;		/* between tries */
	int64_t again_at;	/* ms, time of the next try */
	int error;		/* of the last try */
};

struct client {
	LIST_ENTRY(client) node;
	struct server *server;
	struct rdmamsg_ep *ep;	/* NULL: the connection has ended */
	enum client_state state;
	struct copy_begin begin;	/* of the last file */
	struct copy_file *file;
	time_t heard;
	pthread_t thread;	/* COMMITTING */
	int committed;		/* result of that thread */
	char peer[NI_MAXHOST];
};

static struct rdmamsg *to_stop;
static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	stopped = 1;
	rdmamsg_stop(to_stop);	/* wakes rdmamsg_wait() as well */
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static time_t now(void)
{
	return (time_t)(now_ms() / 1000);
}

/* ---- what clients are told -------------------------------------------- */

static const char *text_of(int err)
{
	switch (err) {
	case -EINVAL:
		return "not a name that is accepted here: it is hidden or "
		       "leads out of the directory";
	case -ENOTDIR:
		return "its path there has a file or a symbolic link, which "
		       "is not followed, in place of a directory";
	case -EISDIR:
		return "a directory there has that name";
	case -EXDEV:
		return "its directory there is on another file system than the "
		       "server's";
	case -EMSGSIZE:
		return "not as many bytes as announced";
	case -EBADMSG:
		return "SHA-256 differs: not the bytes that were sent";
	case -ECANCELED:
		return "cancelled";
	default:
		return strerror(-err);
	}
}

static void misbehaves(struct client *c, const char *how)
{
	fprintf(stderr, "rdmamsg-copy: %s: %s: connection ended\n", c->peer,
		how);
	rdmamsg_ep_abort(c->ep);
}

static void tell(struct client *c, int err)
{
	struct copy_result r = { .failed = err != 0 };
	uint8_t buf[COPY_RESULT_MAX];

	if (err)
		snprintf(r.text, sizeof(r.text), "%s", text_of(err));
	if (rdmamsg_send(c->ep, buf, copy_result_encode(&r, buf), COPY_RESULT,
			 NULL) == -EAGAIN)
		misbehaves(c, "does not take its results");
}

static void report(const struct client *c, int err)
{
	char path[COPY_PATH_MAX + 1];

	strcpy(path, *c->begin.path ? c->begin.path : "a file");
	(void)copy_printable(path);
	if (err)
		fprintf(stderr, "rdmamsg-copy: %s from %s: %s\n", path,
			c->peer, text_of(err));
	else if (c->begin.kind == COPY_FILE)
		printf("%s from %s: %llu bytes\n", path, c->peer,
		       (unsigned long long)copy_file_size(c->file));
	else
		printf("%s/ from %s\n", path, c->peer);
	fflush(stdout);
}

/* Ends the file, complete or not. */
static void file_end(struct client *c, int err, enum client_state next)
{
	report(c, err);
	copy_file_free(c->file);
	c->file = NULL;
	c->state = next;
	if (c->ep)
		tell(c, err);
}

/* ---- to the disk ------------------------------------------------------ */

static void client_free(struct client *c)
{
	c->server->count--;
	LIST_REMOVE(c, node);
	free(c);
}

static void commit_done(struct rdmamsg *ctx, void *arg)
{
	struct client *c = arg;

	(void)pthread_join(c->thread, NULL);
	c->server->committing--;
	c->heard = now();
	file_end(c, c->committed, IDLE);
	if (!c->ep)
		client_free(c);
}

static void *commit_thread(void *arg)
{
	struct client *c = arg;

	c->committed = copy_file_commit(c->file);
	/* the queue is longer than the list of clients */
	while (rdmamsg_submit(c->server->ctx, commit_done, c) == -EAGAIN)
		sched_yield();
	return NULL;
}

static void commit(struct client *c)
{
	c->state = COMMITTING;
	if (pthread_create(&c->thread, NULL, commit_thread, c))
		file_end(c, copy_file_commit(c->file), IDLE);
	else
		c->server->committing++;
}

/* ---- messages --------------------------------------------------------- */

/* Reports a directory, once it is complete. */
static void made(struct client *c)
{
	c->state = IDLE;
	tell(c, 0);
}

static void begin(struct client *c, const void *data, size_t len)
{
	struct copy_begin *b = &c->begin;
	int ret;

	memset(b, 0, sizeof(*b));
	ret = copy_begin_decode(b, data, len);
	if (ret == -EPROTO) {
		misbehaves(c, "a broken BEGIN");
		return;
	}
	if (!ret && b->kind == COPY_DIR)
		ret = copy_dir_make(c->server->dir, b);
	else if (!ret)
		ret = copy_file_new(c->server->dir, b, &c->file);
	if (ret)
		file_end(c, ret, SKIPPING);
	else if (b->kind == COPY_FILE)
		c->state = WRITING;
	else if (b->kind == COPY_DIR_END)
		commit(c);
	else
		made(c);
}

static void end(struct client *c, const void *data, size_t len)
{
	int ret;

	if (len != COPY_SHA_LEN) {
		misbehaves(c, "a broken END");
		return;
	}
	ret = copy_file_verify(c->file, data);
	if (ret)
		file_end(c, ret, IDLE);
	else
		commit(c);
}

static void write_data(struct client *c, const void *data, size_t len)
{
	int ret = copy_file_write(c->file, data, len);

	if (ret)
		file_end(c, ret, SKIPPING);
}

static void handle(struct client *c, uint32_t tag, const void *data, size_t len)
{
	if (tag == COPY_BEGIN && (c->state == IDLE || c->state == SKIPPING))
		begin(c, data, len);
	else if (tag == COPY_DATA && c->state == WRITING)
		write_data(c, data, len);
	else if (tag == COPY_END && c->state == WRITING)
		end(c, data, len);
	else if (tag == COPY_CANCEL && c->state == WRITING)
		file_end(c, -ECANCELED, IDLE);
	else if (c->state != SKIPPING)
		misbehaves(c, "a message out of turn");
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct client *c = rdmamsg_ep_user(ep);

	c->heard = now();
	/* an aborted endpoint may still deliver messages */
	if (rdmamsg_ep_state(ep) == RDMAMSG_CONNECTED)
		handle(c, rdmamsg_msg_tag(msg), rdmamsg_msg_data(msg),
		       rdmamsg_msg_len(msg));
	rdmamsg_msg_free(msg);
}

/* ---- clients come and go ---------------------------------------------- */

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct client *c = rdmamsg_ep_user(ep);

	c->ep = NULL;
	if (why->error && why->who != RDMAMSG_WHO_LOCAL)
		fprintf(stderr, "rdmamsg-copy: %s: %s\n", c->peer, why->text);
	if (c->state == COMMITTING)
		return; /* complete and verified; commit_done() goes on */
	if (c->file)
		file_end(c, -ECONNRESET, IDLE);
	client_free(c);
}

static const char *refuse(const struct server *s,
			  const struct rdmamsg_request *req)
{
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (len != sizeof(COPY_HELLO) - 1 || memcmp(data, COPY_HELLO, len))
		return COPY_REFUSAL;
	return s->count >= CLIENTS_MAX ? "too many clients" : NULL;
}

static void reject(struct rdmamsg_request *req, const char *peer,
		   const char *why)
{
	char said[RDMAMSG_HELLO_DATA_MAX + 1] = "";
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (len)
		memcpy(said, data, len < sizeof(said) ? len : sizeof(said) - 1);
	fprintf(stderr, "rdmamsg-copy: %s: rejected, %s; it says '%s'\n", peer,
		why, copy_printable(said));
	(void)rdmamsg_request_reject(req, why, strlen(why));
}

/* Tells the operator why a copy stands still, and when it goes on. */
static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *event)
{
	const struct client *c = rdmamsg_ep_user(ep);

	if (event->change == RDMAMSG_PATH_CHANGE_DOWN ||
	    event->change == RDMAMSG_PATH_CHANGE_RESUMED)
		fprintf(stderr, "rdmamsg-copy: %s: connection %s: %s\n",
			c->peer,
			rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, event->change),
			event->text);
}

static int client_accept(struct client *c, struct rdmamsg_request *req)
{
	/* for clients that ask for it */
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .timeout_ms = COPY_DOWN_MS,
	};
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on),
		.on_message = on_message,
		.on_path = on_path,
		.on_closed = on_closed,
	};
	const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning),
		.recv_depth = COPY_WINDOW,	/* bounds the server's memory */
		.peer_timeout_ms = COPY_SILENCE_MS,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts),
		.user = c,
		.handlers = &on,
		.failover = &failover,
		.setup_data = COPY_HELLO,
		.setup_data_len = sizeof(COPY_HELLO) - 1,
		.max_msg_size = COPY_CHUNK,
		.send_queue = 4,
		.tuning = &tuning,
	};

	return rdmamsg_request_accept(req, &opts, &c->ep);
}

static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	struct server *s = rdmamsg_listener_user(listener);
	const char *why = refuse(s, req);
	struct sockaddr_storage addr;
	char peer[NI_MAXHOST];
	struct client *c;

	if (rdmamsg_request_addrs(req, NULL, &addr) ||
	    getnameinfo((struct sockaddr *)&addr, sizeof(addr), peer,
			sizeof(peer), NULL, 0, NI_NUMERICHOST))
		strcpy(peer, "?");
	c = why ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		reject(req, peer, why ? why : "no memory");
		return;
	}
	c->server = s;
	c->heard = now();
	strcpy(c->peer, peer);
	if (client_accept(c, req)) {
		fprintf(stderr, "rdmamsg-copy: %s: %s\n", c->peer,
			rdmamsg_error());
		free(c);
		return;
	}
	LIST_INSERT_HEAD(&s->clients, c, node);
	s->count++;
}

/* Closes the connections of idle clients. */
static void expire(struct server *s)
{
	struct client *c;

	LIST_FOREACH(c, &s->clients, node) {
		if (!c->ep || c->state == COMMITTING ||
		    rdmamsg_ep_state(c->ep) != RDMAMSG_CONNECTED ||
		    now() - c->heard < IDLE_MAX)
			continue;
		misbehaves(c, "silent for too long");
	}
}

/* ---- the program ------------------------------------------------------ */

static void on_failed(struct rdmamsg_listener *listener, int error)
{
	struct server *s = rdmamsg_listener_user(listener);

	fprintf(stderr, "rdmamsg-copy: cannot listen at %s: %s; trying again "
		"until its device is back\n", s->host ? s->host : "any address",
		strerror(-error));
	s->lost = true;
}

static void catch_signals(struct rdmamsg *ctx)
{
	struct sigaction sa = { .sa_handler = on_signal };

	to_stop = ctx;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* the calls return an error instead of a signal */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

static int listen_now(struct server *s)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
		.on_failed = on_failed,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts),
		.user = s,
		.handlers = &on,
	};
	int ret = rdmamsg_listen(s->ctx, s->host, s->service, &opts,
				 &s->listener);

	if (ret) {
		if (ret != s->error)
			fprintf(stderr, "rdmamsg-copy: %s\n", rdmamsg_error());
		s->error = ret;
		return ret;
	}
	s->error = 0;
	/* later tries need the port that clients know */
	snprintf(s->port, sizeof(s->port), "%u",
		 rdmamsg_listener_port(s->listener));
	s->service = s->port;
	printf("listening on port %s\n", s->port);
	fflush(stdout);
	return 0;
}

/* Replaces a listener that has failed, with a pause before each try. */
static void listen_again(struct server *s)
{
	if (s->lost) {
		rdmamsg_listener_close(s->listener);
		s->listener = NULL;
		s->lost = false;
		s->wait_ms = AGAIN_FIRST_MS;
		s->again_at = now_ms() + s->wait_ms;
	}
	if (s->listener || now_ms() < s->again_at || !listen_now(s))
		return;
	s->wait_ms = 2 * s->wait_ms < AGAIN_LAST_MS ? 2 * s->wait_ms :
		     AGAIN_LAST_MS;
	s->again_at = now_ms() + s->wait_ms;
}

/* Returns how long to wait for events, in ms, or -1. */
static int pause_ms(const struct server *s)
{
	if (!s->listener)
		return s->wait_ms;
	return s->count ? 1000 : -1;
}

static int serve(struct server *s)
{
	while (!stopped) {
		int ret = rdmamsg_wait(s->ctx, pause_ms(s));

		if (ret < 0 && ret != -EINTR) {
			fprintf(stderr, "rdmamsg-copy: %s\n", rdmamsg_error());
			return 1;
		}
		expire(s);
		listen_again(s);
	}
	return 0;
}

int copy_server(const char *dir, const char *host, const char *port,
		const char *key_file)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .key_file = key_file,
	};
	struct server s = {
		.dir = copy_store_open(dir), .host = host, .service = port,
	};
	int status = 1;

	if (s.dir < 0) {
		fprintf(stderr, "rdmamsg-copy: %s: %s: the server needs a "
			"directory that it may write into\n", shown_name(dir),
			strerror(-s.dir));
		return 1;
	}
	if (rdmamsg_open(&s.ctx, &opts)) {
		fprintf(stderr, "rdmamsg-copy: %s\n", rdmamsg_error());
		close(s.dir);
		return 1;
	}
	catch_signals(s.ctx);
	if (!listen_now(&s))
		status = serve(&s);
	while (s.committing)
		(void)rdmamsg_wait(s.ctx, 1000);
	/* callbacks of rdmamsg_close() remove partial files */
	rdmamsg_close(s.ctx);
	close(s.dir);
	return status;
}
