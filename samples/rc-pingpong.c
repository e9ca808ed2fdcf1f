/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send, read and write over a reliable connection that is made without the
 * connection manager: the two sides find each other by TCP.
 *
 *   rc-pingpong [OPTION...]           the server, for one client
 *   rc-pingpong [OPTION...] HOST      the client
 *
 * The server sends a message, which the client prints. It puts another text
 * into its memory and sends the key to it; the client reads that memory, prints
 * what was there, and writes a third text. A message behind the write says that
 * it has been done, and the server, whose program had no part in it, prints
 * what it finds. Both end with the result.
 */
#include <rdmamsg/endpoint.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS	30000
#define PORT		"19875"

#define TEXT_SEND	"SEND operation "
#define TEXT_READ	"RDMA read operation "
#define TEXT_WRITE	"RDMA write operation"

enum tag { TAG_TEXT, TAG_KEY, TAG_WRITTEN };

struct test {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	struct rdmamsg_region *region;
	char memory[64];		/* more than any of the texts */
	const char *host;		/* NULL: the server */
	const char *port;
	const char *device;
	struct rdmamsg_path path;
	int gid_index;			/* -1: any suitable one */
};

/* ---- waiting ---------------------------------------------------------- */

struct operation {
	bool done;
	int status;
};

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct operation *op = cookie;

	(void)ep;
	if (!op)
		return;
	op->status = status;
	op->done = true;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_complete = on_complete,
};

/* Waits for the operation, which ends with the connection at the latest. */
static int finish(struct test *t, int ret, const struct operation *op)
{
	while (!ret && !op->done) {
		ret = rdmamsg_wait(t->ctx, TIMEOUT_MS);
		ret = ret > 0 || ret == -EINTR ? 0 : ret ? ret : -ETIMEDOUT;
	}
	return ret ? ret : op->status;
}

static int receive(struct test *t, enum tag tag, struct rdmamsg_msg **ret_msg)
{
	int ret = rdmamsg_recv_wait(t->ep, TIMEOUT_MS, ret_msg);

	if (ret)
		return ret;
	if (rdmamsg_msg_tag(*ret_msg) == (uint32_t)tag)
		return 0;
	rdmamsg_msg_free(*ret_msg);
	return -EPROTO;
}

/* Prints the text. Returns 0 if it is the expected one. */
static int show(const char *what, const char *text, size_t len,
		const char *expected)
{
	printf("%s: '", what);
	fwrite(text, 1, strnlen(text, len), stdout);
	puts("'");
	return len > strlen(expected) && !strcmp(text, expected) ? 0 : -EBADMSG;
}

/* ---- the connection --------------------------------------------------- */

static int connect_to(struct test *t, const struct rdmamsg_ep_options *opts)
{
	int ret = rdmamsg_oob_connect(t->ctx, t->host, t->port, opts, &t->ep);

	if (ret)
		return ret;
	rdmamsg_ep_hold(t->ep);
	while (rdmamsg_ep_state(t->ep) == RDMAMSG_CONNECTING && ret >= 0)
		ret = rdmamsg_wait(t->ctx, TIMEOUT_MS);
	if (rdmamsg_ep_state(t->ep) == RDMAMSG_CONNECTED)
		return 0;
	fprintf(stderr, "rc-pingpong: %s\n", rdmamsg_ep_reason(t->ep)->text);
	if (rdmamsg_ep_reason(t->ep)->error)
		ret = rdmamsg_ep_reason(t->ep)->error;
	return ret < 0 ? ret : -ENOTCONN;
}

static int accept_one(struct test *t, const struct rdmamsg_ep_options *opts)
{
	struct rdmamsg_listener *l;
	int ret = rdmamsg_oob_listen(t->ctx, NULL, t->port, NULL, &l);

	if (ret)
		return ret;
	printf("listening on port %u\n", rdmamsg_listener_port(l));
	fflush(stdout);
	ret = rdmamsg_listener_accept_wait(l, opts, -1, &t->ep);
	rdmamsg_listener_close(l);
	return ret;
}

static int make_connection(struct test *t)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.device = t->device, .path = &t->path,
		.timeout_ms = TIMEOUT_MS,
	};
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };
	int ret = rdmamsg_open(&t->ctx, NULL);

	if (!ret)
		ret = t->host ? connect_to(t, &opts) : accept_one(t, &opts);
	if (!ret)
		ret = rdmamsg_ep_query(t->ep, &info);
	if (ret)
		return ret;
	printf("connected on %s port %u, queue pair 0x%x to 0x%x, MTU %u\n",
	       info.device, info.port, info.qp_num, info.peer_qp_num,
	       info.mtu);
	return rdmamsg_region_create(t->ctx, t->memory, sizeof(t->memory),
				     RDMAMSG_ACCESS_READ |
				     RDMAMSG_ACCESS_WRITE |
				     RDMAMSG_ACCESS_LOCAL_WRITE, &t->region);
}

/* ---- the two sides ---------------------------------------------------- */

static int serve(struct test *t)
{
	struct rdmamsg_key key;
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_send_wait(t->ep, TEXT_SEND, sizeof(TEXT_SEND),
				    TAG_TEXT, TIMEOUT_MS);

	if (ret)
		return ret;
	strcpy(t->memory, TEXT_READ);
	ret = rdmamsg_region_get_key(t->region, t->ep, &key);
	if (!ret)
		ret = rdmamsg_send_wait(t->ep, &key, sizeof(key), TAG_KEY,
					TIMEOUT_MS);
	if (!ret)
		ret = receive(t, TAG_WRITTEN, &msg);
	if (ret)
		return ret;
	rdmamsg_msg_free(msg);
	return show("written here", t->memory, sizeof(t->memory), TEXT_WRITE);
}

static int get_key(struct test *t, struct rdmamsg_key *ret_key)
{
	struct rdmamsg_msg *msg;
	int ret = receive(t, TAG_KEY, &msg);

	if (ret)
		return ret;
	ret = rdmamsg_key_import(rdmamsg_msg_data(msg), rdmamsg_msg_len(msg),
				 ret_key);
	rdmamsg_msg_free(msg);
	return ret;
}

static int use(struct test *t)
{
	struct operation read = { .done = false }, write = { .done = false };
	struct rdmamsg_sge entry = {
		.data = t->memory, .len = sizeof(t->memory),
		.region = t->region,
	};
	struct rdmamsg_msg *msg;
	struct rdmamsg_key key;
	int ret = receive(t, TAG_TEXT, &msg);

	if (ret)
		return ret;
	ret = show("received", rdmamsg_msg_data(msg), rdmamsg_msg_len(msg),
		   TEXT_SEND);
	rdmamsg_msg_free(msg);
	if (!ret)
		ret = get_key(t, &key);
	if (!ret)
		ret = rdmamsg_region_register(t->region, t->ep);
	if (!ret)
		ret = finish(t, rdmamsg_read(t->ep, &entry, 1, &key, 0, 0,
					     &read), &read);
	if (!ret)
		ret = show("read there", t->memory, sizeof(t->memory),
			   TEXT_READ);
	if (ret)
		return ret;
	strcpy(t->memory, TEXT_WRITE);
	entry.len = sizeof(TEXT_WRITE);
	ret = finish(t, rdmamsg_write(t->ep, &entry, 1, &key, 0, 0, &write),
		     &write);
	/*
	 * the message follows the write, so its arrival shows that the write
	 * has arrived
	 */
	return ret ? ret : rdmamsg_send_wait(t->ep, NULL, 0, TAG_WRITTEN,
					     TIMEOUT_MS);
}

/* Releases everything in order, whatever fails. Returns the first error. */
static int clean_up(struct test *t, int ret)
{
	int err = 0;

	if (t->ep && !ret)
		err = rdmamsg_ep_close_wait(t->ep, TIMEOUT_MS);
	else if (t->ep)
		rdmamsg_ep_release(t->ep);
	if (err) {
		fprintf(stderr, "rc-pingpong: closing: %s\n", rdmamsg_error());
		ret = err;
	}
	err = rdmamsg_region_destroy(t->region);
	if (err)
		fprintf(stderr, "rc-pingpong: %s\n", rdmamsg_error());
	rdmamsg_close(t->ctx);
	return ret ? ret : err;
}

/* ---- options ---------------------------------------------------------- */

static void usage(void)
{
	printf("Usage: rc-pingpong [OPTION...] [HOST]\n"
	       "Send, read and write over a reliable connection made through "
	       "TCP.\n"
	       "Without HOST the server, for one client.\n\n"
	       "  -p, --port=PORT      TCP port (" PORT "); 0: a free one\n"
	       "  -d, --ib-dev=NAME    RDMA device (one that suits)\n"
	       "  -i, --ib-port=N      its port, 1 to 255 (an active one)\n"
	       "  -g, --gid-idx=N      GID index, 0 to 254 (one that suits)\n"
	       "  -h, --help           print this and exit\n");
}

static int number(const char *text, long lowest, long highest)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*text && !*end && n >= lowest && n <= highest)
		return (int)n;
	fprintf(stderr, "rc-pingpong: '%s': a number from %ld to %ld; "
		"see --help\n", text, lowest, highest);
	exit(2);
}

static void parse(struct test *t, int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "ib-dev", required_argument, NULL, 'd' },
		{ "ib-port", required_argument, NULL, 'i' },
		{ "gid-idx", required_argument, NULL, 'g' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "p:d:i:g:h", options, NULL)) >= 0) {
		switch (c) {
		case 'p':
			(void)number(optarg, 0, 65535);
			t->port = optarg;
			break;
		case 'd':
			t->device = optarg;
			break;
		case 'i':
			t->path.port = (uint32_t)number(optarg, 1, 255);
			break;
		case 'g':
			t->gid_index = number(optarg, 0, 254);
			t->path.gid_index = t->gid_index ?
				(uint32_t)t->gid_index : RDMAMSG_NONE;
			break;
		case 'h':
			usage();
			exit(0);
		default:
			fputs("rc-pingpong: see --help\n", stderr);
			exit(2);
		}
	}
	if (optind < argc)
		t->host = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "rc-pingpong: '%s': one HOST is enough; "
			"see --help\n", argv[optind]);
		exit(2);
	}
}

static void banner(const struct test *t)
{
	printf("device: %s\n", t->device ? t->device : "one that suits");
	if (t->path.port)
		printf("port of it: %u\n", t->path.port);
	if (t->gid_index >= 0)
		printf("GID index: %d\n", t->gid_index);
	if (t->host)
		printf("host: %s\n", t->host);
	printf("TCP port: %s\n", t->port);
}

int main(int argc, char **argv)
{
	struct test t = {
		.port = PORT, .gid_index = -1, .path.size = sizeof(t.path),
	};
	int ret;

	parse(&t, argc, argv);
	banner(&t);
	ret = make_connection(&t);
	if (!ret)
		ret = t.host ? use(&t) : serve(&t);
	if (ret)
		fprintf(stderr, "rc-pingpong: %s: %s\n", strerror(-ret),
			rdmamsg_error());
	ret = clean_up(&t, ret);
	printf("test result is %d\n", ret ? 1 : 0);
	return ret ? 1 : 0;
}
