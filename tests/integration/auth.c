/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: pre-shared keys of contexts and listeners, over both connectors.
 */
#include "common.h"
#include "oob_pair.h"
#include "request.h"

#include <fcntl.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <sys/stat.h>

#define MANY	48

static const char key[] = "the key of both sides";
static const char other_key[] = "the key of nobody else";
static struct pair p;
static bool out_of_band;

static struct rdmamsg_options with_key(const char *k)
{
	return (struct rdmamsg_options){
		.size = sizeof(struct rdmamsg_options), .key = k,
		.key_len = k ? strlen(k) : 0,
	};
}

/* Contexts of the client and of the server. */
static void init(const char *client, const char *server)
{
	const struct rdmamsg_options c = with_key(client), s = with_key(server);

	pair_init(&p, &s);
	test_close(p.c.ctx);
	p.c.ctx = test_open(&c);
	if (out_of_band)
		p.c.opts.device = p.s.opts.device = test_device();
}

static void listen_with(struct rdmamsg_listen_options *o)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	int ret;

	o->size = sizeof(*o);
	o->user = &p;
	if (!o->handlers)
		o->handlers = &on;
	ret = out_of_band ?
	      rdmamsg_oob_listen(p.s.ctx, test_addr(), "0", o, &p.listener) :
	      rdmamsg_listen(p.s.ctx, test_addr(), "0", o, &p.listener);
	if (ret)
		fail_msg("listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
}

static void dial_end(struct end *e)
{
	int ret = out_of_band ?
		  rdmamsg_oob_connect(e->ctx, test_addr(), p.port, &e->opts,
				      &e->ep) :
		  rdmamsg_connect(e->ctx, test_addr(), p.port, &e->opts,
				  &e->ep);

	if (ret)
		fail_msg("connect: %s", rdmamsg_error());
}

static struct rdmamsg_listener_stats stats(void)
{
	struct rdmamsg_listener_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_listener_get_stats(p.listener, &s), 0);
	return s;
}

static void expect_refused(struct end *e, const char *word)
{
	expect_end(e, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_AUTH, -EACCES);
	assert_int_equal(e->connected, 0);
	if (!strstr(e->why.text, word))
		fail_msg("not \"%s\": %s", word, e->why.text);
}

/* ---- keys of both sides ----------------------------------------------- */

static void same_key(void)
{
	struct rdmamsg_listen_options o = { 0 };
	const void *data;
	size_t len;

	init(key, key);
	p.c.opts.setup_data = p.s.opts.setup_data = pattern(7);
	p.c.opts.setup_data_len = RDMAMSG_SETUP_DATA_MAX;
	p.s.opts.setup_data_len = 100;
	listen_with(&o);
	dial_end(&p.c);
	WAIT_FOR(p.c.connected && p.s.connected);
	data = rdmamsg_ep_peer_data(p.s.ep, &len);
	assert_int_equal(len, RDMAMSG_SETUP_DATA_MAX);
	assert_memory_equal(data, pattern(7), len);
	data = rdmamsg_ep_peer_data(p.c.ep, &len);
	assert_int_equal(len, 100);
	assert_memory_equal(data, pattern(7), len);
	assert_int_equal(stats().endpoints, 1);
	assert_int_equal(stats().unproven, 0);
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void different(const char *client, const char *server,
		      const char *client_word, const char *server_word,
		      unsigned int unproven)
{
	struct rdmamsg_listen_options o = { 0 };

	init(client, server);
	listen_with(&o);
	dial_end(&p.c);
	expect_refused(&p.c, client_word);
	expect_refused(&p.s, server_word);
	assert_int_equal(stats().unproven, unproven);
	assert_int_equal(stats().offences, unproven);
	assert_int_equal(stats().endpoints, 0);
	pair_fini(&p);
}

static void keys(void)
{
	same_key();
	different(key, other_key, "another key", "another key", 1);
	different(NULL, key, "this side has none", "the peer has no key", 1);
	different(key, NULL, "the peer has no key", "this side has none", 0);
}

static void connect__with_keys_IF_THE_SAME(void **state)
{
	out_of_band = false;
	keys();
}

static void oob_connect__with_keys_IF_THE_SAME(void **state)
{
	skip_on_iwarp(NO_OOB);
	out_of_band = true;
	keys();
}

/* Records that the program carries: the contexts have the keys. */
static void oob_answer__with_keys_IF_THE_SAME(void **state)
{
	static const char *const keys_of_server[] = { key, other_key };

	skip_on_iwarp(NO_OOB);
	out_of_band = true;
	for (size_t i = 0; i < ARRAY_SIZE(keys_of_server); i++) {
		struct oob_record r;

		init(key, keys_of_server[i]);
		oob_make_offer(&p.c, &r);
		if (rdmamsg_oob_answer(p.s.ctx, r.bytes, r.len, &p.s.opts,
				       &p.s.ep))
			fail_msg("answer: %s", rdmamsg_error());
		oob_get_record(p.s.ep, &r);
		assert_int_equal(rdmamsg_oob_finish(p.c.ep, r.bytes, r.len),
				 0);
		if (i) {
			expect_refused(&p.c, "another key");
			expect_refused(&p.s, "another key");
		} else {
			oob_wait_connected(&p);
			oob_talk(&p);
			pair_close(&p);
		}
		pair_fini(&p);
	}
}

/* After an offence the initiator's address waits, and then gets in. */
static void connect__after_another_key_GETS_IN(void **state)
{
	struct rdmamsg_listen_options o = { .slow_ms = 1 };
	const struct rdmamsg_options right = with_key(key);

	out_of_band = false;
	init(other_key, key);
	listen_with(&o);
	dial_end(&p.c);
	expect_refused(&p.c, "another key");
	expect_refused(&p.s, "another key");
	test_close(p.c.ctx);
	end_fini(&p.c);
	end_fini(&p.s);
	end_init(&p.c, "client", test_open(&right));
	end_init(&p.s, "server", p.s.ctx);
	p.c.peer = &p.s;
	p.s.peer = &p.c;
	dial_end(&p.c);
	WAIT_FOR(p.c.connected && p.s.connected);
	assert_int_equal(stats().unproven, 1);
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- listeners -------------------------------------------------------- */

static struct rdmamsg *elsewhere;

static void accept_there(struct rdmamsg *ctx, struct rdmamsg_request *req,
			 void *arg)
{
	if (rdmamsg_request_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void move_there(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_move(req, elsewhere, accept_there, NULL))
		note("rdmamsg_request_move: %s", rdmamsg_error());
}

/* The request has the listener's key, whatever the other context has. */
static void request__moved_KEEPS_ITS_KEY(void **state)
{
	static const char *const keys_there[] = { NULL, other_key };

	out_of_band = false;
	for (size_t i = 0; i < ARRAY_SIZE(keys_there); i++) {
		struct rdmamsg_options there = with_key(keys_there[i]);
		static const struct rdmamsg_listener_handlers on = {
			.size = sizeof(on), .on_request = move_there,
		};
		struct rdmamsg_listen_options o = {
			.handlers = &on, .key = key, .key_len = strlen(key),
		};

		init(key, NULL);
		elsewhere = test_open(&there);
		listen_with(&o);
		dial_end(&p.c);
		WAIT_FOR(p.c.connected && p.s.connected);
		oob_talk(&p);
		pair_close(&p);
		test_close(elsewhere);
		pair_fini(&p);
	}
}

static unsigned int open_here, open_there, ended;

static void on_here(struct rdmamsg_ep *ep)
{
	open_here++;
}

static void on_there(struct rdmamsg_ep *ep)
{
	open_there++;
}

static void on_end(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	ended++;
}

/* Many exchanges run at once, with receives of their own and shared ones. */
static void connect__many_at_once_CONNECTED(void **state)
{
	static const struct rdmamsg_ep_handlers here = {
		.size = sizeof(here), .on_connected = on_here,
		.on_closed = on_end,
	}, there = {
		.size = sizeof(there), .on_connected = on_there,
		.on_closed = on_end,
	};
	struct rdmamsg_srq_options srq = { .size = sizeof(srq) };

	for (int shared = 0; shared < 2; shared++) {
		struct rdmamsg_ep_options accepted = {
			.size = sizeof(accepted), .handlers = &there,
			.tuning = TUNING(.recv_depth = 4),
		}, dialled = {
			.size = sizeof(dialled), .handlers = &here,
			.tuning = TUNING(.recv_depth = 4),
		};
		struct rdmamsg_listen_options o = {
			.size = sizeof(o), .ep = &accepted,
		};
		struct rdmamsg_options opts = with_key(key);

		open_here = open_there = ended = 0;
		opts.srq = shared ? &srq : NULL;
		pair_init(&p, &opts);
		if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, &p.listener))
			fail_msg("listen: %s", rdmamsg_error());
		listener_service(p.listener, p.port);
		for (int i = 0; i < MANY; i++)
			if (rdmamsg_connect(p.c.ctx, test_addr(), p.port,
					    &dialled, NULL))
				fail_msg("connect: %s", rdmamsg_error());
		WAIT_FOR((open_here == MANY && open_there == MANY) || ended);
		assert_int_equal(ended, 0);
		assert_int_equal(stats().endpoints, MANY);
		pair_fini(&p);
	}
}

/* ---- files and arguments ---------------------------------------------- */

static void write_key(const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, key, strlen(key)), (ssize_t)strlen(key));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

/* One side has the bytes, the other side has a file of the same bytes. */
static void open__with_a_key_file_ITS_BYTES(void **state)
{
	char path[] = "/tmp/rdmamsg-auth-XXXXXX";
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .key_file = path,
	};
	struct rdmamsg_listen_options o = {
		.key_file = path,
	};
	struct rdmamsg *ctx;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	out_of_band = false;
	write_key(path, 0644);
	assert_error(rdmamsg_open(&ctx, &opts), -EACCES, "chmod 600");
	init(key, NULL);
	o.size = sizeof(o);
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, NULL),
		     -EACCES, "mode 0644");
	write_key(path, 0600);
	listen_with(&o);
	/* the library has read the file, and does not need it any more */
	assert_int_equal(unlink(path), 0);
	dial_end(&p.c);
	WAIT_FOR(p.c.connected && p.s.connected);
	pair_close(&p);
	pair_fini(&p);
	assert_error(rdmamsg_open(&ctx, &opts), -ENOENT, path);
}

static void key__arguments_ARE_CHECKED(void **state)
{
	struct rdmamsg_options opts = with_key("too short");
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = &on, .key = key,
		.key_len = strlen(key), .key_file = "/dev/null",
	};
	struct rdmamsg *ctx;

	assert_error(rdmamsg_open(&ctx, &opts), -EINVAL, "16 to 4096");
	opts.key = NULL;
	assert_error(rdmamsg_open(&ctx, &opts), -EINVAL, "key is NULL");
	opts.key_file = "/tmp";
	assert_error(rdmamsg_open(&ctx, &opts), -EINVAL, "one of");
	pair_init(&p, NULL);
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, NULL),
		     -EINVAL, "one of");
	o.key = NULL;
	o.key_len = 0;
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, NULL),
		     -EINVAL, "regular file");
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(connect__with_keys_IF_THE_SAME),
		TEST(oob_connect__with_keys_IF_THE_SAME),
		TEST(oob_answer__with_keys_IF_THE_SAME),
		TEST(connect__after_another_key_GETS_IN),
		TEST(request__moved_KEEPS_ITS_KEY),
		TEST(connect__many_at_once_CONNECTED),
		TEST(open__with_a_key_file_ITS_BYTES),
		TEST(key__arguments_ARE_CHECKED),
	};

	return test_main(tests, NULL, argc, argv);
}
