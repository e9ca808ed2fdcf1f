/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A key-value store: kv serve ADDR PORT, and kv HOST PORT, which takes commands
 * from standard input: 'put KEY VALUE' and 'get KEY'.
 * A put is a message to the server. A get reads the table in the server's
 * memory, and the server's program takes no part. The server gives each client
 * the key of its table in setup_data.
 *
 * A read that meets a put may have bytes of both, in any mixture. So a slot has
 * a number that counts its puts, and a sum over the number and the bytes. The
 * client reads again while the sum is wrong.
 *
 * If the server is killed, the client connects again, as soon as another server
 * listens there, and repeats the command. A put may thus be done twice, which
 * changes nothing. A new server has an empty table.
 *
 * The byte order of both hosts must be the same.
 */
#include "usage.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include <errno.h>
#include <signal.h>

#define SLOTS		1024
#define KEY		32	/* bytes, with a null byte at the end */
#define VALUE		976	/* likewise */
#define CONNECT_MS	600000
#define ANSWER_MS	10000
#define CLOSE_MS	5000

struct slot {
	uint64_t number;	/* of puts; 0: the slot is free */
	uint64_t sum;		/* of the number, the key and the value */
	char key[KEY];
	char value[VALUE];
};

enum { STORED, FULL };		/* tags of answers */

static struct rdmamsg *ctx;

/* FNV-1a */
static uint64_t hash(uint64_t sum, const void *data, size_t len)
{
	for (const uint8_t *p = data; len--; p++)
		sum = (sum ^ *p) * 0x100000001b3;
	return sum;
}

static uint64_t sum_of(const struct slot *s)
{
	return hash(hash(0xcbf29ce484222325, &s->number, sizeof(s->number)),
		    s->key, KEY + VALUE);
}

static unsigned int first_slot(const char *key)
{
	return hash(0xcbf29ce484222325, key, strlen(key)) % SLOTS;
}

/* ---- the server ------------------------------------------------------- */

static struct slot table[SLOTS];
static struct rdmamsg_region *region;

static struct slot *find(const char *key)
{
	unsigned int first = first_slot(key);

	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *s = &table[(first + i) % SLOTS];

		if (!s->number || !strcmp(s->key, key))
			return s;
	}
	return NULL;
}

/* A put is a slot without the number and the sum. */
static void on_put(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct slot new = { 0 }, *s = NULL;

	if (rdmamsg_msg_len(msg) == KEY + VALUE) {
		memcpy(new.key, rdmamsg_msg_data(msg), KEY + VALUE);
		new.key[KEY - 1] = new.value[VALUE - 1] = '\0';
		s = find(new.key);
	}
	if (s) {
		new.number = s->number + 1;
		new.sum = sum_of(&new);
		*s = new;
	}
	rdmamsg_msg_free(msg);
	rdmamsg_send(ep, NULL, 0, s ? STORED : FULL, NULL);
}

static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_put,
	};
	struct rdmamsg_key key;
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on, .send_queue = 64,
		.max_msg_size = KEY + VALUE,
		.setup_data = &key, .setup_data_len = sizeof(key),
	};

	(void)listener;
	if (rdmamsg_request_get_key(req, region, &key))
		rdmamsg_request_reject(req, NULL, 0);
	else
		rdmamsg_request_accept(req, &opts, NULL);
}

static void on_signal(int sig)
{
	(void)sig;
	rdmamsg_stop(ctx);
}

static int serve(const char *addr, const char *port)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	static const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg_listener *listener;
	int failed;

	for (int i = 0; i < SLOTS; i++)
		table[i].sum = sum_of(&table[i]);
	if (rdmamsg_region_create(ctx, table, sizeof(table),
				  RDMAMSG_ACCESS_READ, &region) ||
	    rdmamsg_listen(ctx, addr, port, &opts, &listener))
		errx(1, "%s", rdmamsg_error());
	printf("listening on port %u\n", rdmamsg_listener_port(listener));
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	rdmamsg_run(ctx);
	failed = rdmamsg_shutdown_wait(ctx, CLOSE_MS);
	return failed != 0;
}

/* ---- the client ------------------------------------------------------- */

static struct {
	struct rdmamsg_ep *ep;
	struct rdmamsg_key key;		/* of the table */
	struct rdmamsg_region *region;	/* the slot below */
	struct slot slot;
	bool done;			/* the read */
	int status;
	unsigned int torn;
} me;

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	(void)ep;
	if (cookie != &me)	/* a send of rdmamsg_send_wait() */
		return;
	me.done = true;
	me.status = status;
}

/* Waits for a server to listen. Its key has come when the call returns. */
static void connect_to(const char *host, const char *port)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_complete = on_complete,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.flags = RDMAMSG_EP_RETRY, .timeout_ms = CONNECT_MS,
	};
	const void *key;
	size_t len;

	if (rdmamsg_connect_wait(ctx, host, port, &opts, -1, &me.ep))
		errx(1, "%s", rdmamsg_error());
	key = rdmamsg_ep_peer_data(me.ep, &len);
	if (!key || rdmamsg_key_import(key, len, &me.key))
		errx(1, "no server of kv listens on port %s", port);
	if (rdmamsg_region_register(me.region, me.ep))
		errx(1, "%s", rdmamsg_error());
}

static int read_once(unsigned int i)
{
	struct rdmamsg_sge dst = { &me.slot, sizeof(me.slot), me.region };
	int ret = rdmamsg_read(me.ep, &dst, 1, &me.key, i * sizeof(me.slot), 0,
			       &me);

	for (me.done = false; !ret && !me.done; ) {
		int n = rdmamsg_wait(ctx, -1);

		ret = n < 0 && n != -EINTR ? n : 0;
	}
	return ret ? ret : me.status;
}

static int read_slot(unsigned int i)
{
	int ret;

	while (!(ret = read_once(i)) && me.slot.sum != sum_of(&me.slot))
		me.torn++;
	return ret;
}

static int get(const char *key)
{
	unsigned int first = first_slot(key);

	for (unsigned int i = 0; i < SLOTS; i++) {
		int ret = read_slot((first + i) % SLOTS);

		if (ret)
			return ret;
		if (!me.slot.number)
			break;
		if (strcmp(me.slot.key, key))
			continue;
		printf("%s: %s\n", key, me.slot.value);
		return 0;
	}
	printf("%s is not there\n", key);
	return 0;
}

static int put(const char *key, const char *value)
{
	struct rdmamsg_msg *msg;
	char text[KEY + VALUE] = "";
	int ret;

	memcpy(text, key, strlen(key));
	memcpy(text + KEY, value, strlen(value));
	ret = rdmamsg_send_wait(me.ep, text, sizeof(text), 0, ANSWER_MS);
	if (!ret)
		ret = rdmamsg_recv_wait(me.ep, ANSWER_MS, &msg);
	if (ret)
		return ret;
	printf("%s is %s\n", key,
	       rdmamsg_msg_tag(msg) == STORED ? "stored" : "too much");
	rdmamsg_msg_free(msg);
	return 0;
}

static int command(char *line)
{
	char *word = strtok(line, " \n"), *key = strtok(NULL, " \n");
	char *value = strtok(NULL, "\n");

	if (word && key && strlen(key) < KEY) {
		if (!strcmp(word, "get") && !value)
			return get(key);
		if (!strcmp(word, "put") && value && strlen(value) < VALUE)
			return put(key, value);
	}
	fprintf(stderr, "kv: neither 'get KEY' nor 'put KEY VALUE'\n");
	return 0;
}

static int client(const char *host, const char *port)
{
	char line[KEY + VALUE + 8], copy[sizeof(line)];

	if (rdmamsg_region_create(ctx, &me.slot, sizeof(me.slot),
				  RDMAMSG_ACCESS_LOCAL_WRITE, &me.region))
		errx(1, "%s", rdmamsg_error());
	connect_to(host, port);
	while (fgets(line, sizeof(line), stdin)) {
		while (strcpy(copy, line), command(copy)) {
			fprintf(stderr, "kv: %s; connecting again\n",
				rdmamsg_ep_reason(me.ep)->text);
			rdmamsg_ep_close_wait(me.ep, CLOSE_MS);
			connect_to(host, port);
		}
	}
	fprintf(stderr, "kv: %u reads met a put\n", me.torn);
	return rdmamsg_ep_close_wait(me.ep, CLOSE_MS) != 0;
}

int main(int argc, char **argv)
{
	bool serves = argc > 1 && !strcmp(argv[1], "serve");
	int status;

	usage(argc, argv, "kv serve ADDR PORT | kv HOST PORT", 2 + serves,
	      2 + serves);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	status = serves ? serve(argv[2], argv[3]) : client(argv[1], argv[2]);
	rdmamsg_close(ctx);
	return status;
}
