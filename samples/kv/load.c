/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-load: how long requests to kv-server take over TCP, by message and
 * one-sided. Each client is a process that has one request under way. For fair
 * figures give every way the same host, and let nothing else run there.
 */
#include "load.h"

#include "client.h"

#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX	64

static struct {
	const char *host, *port, *tcp_port, *plot;
	unsigned long count, clients, bytes, keys;
	bool puts;
} opts = { .count = 10000, .clients = 1, .bytes = 64, .keys = 16 };

enum how { BY_TCP, BY_MESSAGE, ONE_SIDED };

static const struct plan {
	const char *name;
	enum how how;
	bool puts;
} plans[] = {
	{ "get TCP", BY_TCP, false },
	{ "get message", BY_MESSAGE, false },
	{ "get one-sided", ONE_SIDED, false },
	{ "put TCP", BY_TCP, true },
	{ "put message", BY_MESSAGE, true },
};

#define NR_PLANS	(sizeof(plans) / sizeof(*plans))

static char value[KV_VALUE_MAX];

/* ---- requests --------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int request(struct kv *kv, const struct plan *p, const char *key,
		   struct kv_item *answer)
{
	if (p->puts)
		return kv_ask(kv, KV_PUT, key, value, opts.bytes, 0, answer);
	if (p->how == ONE_SIDED)
		return kv_get(kv, key, answer);
	return kv_ask(kv, KV_GET, key, NULL, 0, 0, answer);
}

static void do_request(struct kv *kv, const struct plan *p, unsigned long i)
{
	struct kv_item answer;
	char key[KV_KEY_MAX];

	snprintf(key, sizeof(key), "load-%lu", i % opts.keys);
	if (request(kv, p, key, &answer))
		errx(1, "%s: %s", p->name, kv->reason);
	if (answer.head.kind != KV_OK ||
	    (!p->puts && answer.head.value_len != opts.bytes))
		errx(1, "%s: the server does not have what was put", p->name);
}

static void put_keys(void)
{
	static struct kv kv;

	memset(value, 'x', sizeof(value));
	kv_open(&kv, true, opts.host, opts.tcp_port);
	for (unsigned long i = 0; i < opts.keys; i++)
		do_request(&kv, &plans[NR_PLANS - 2], i);
	kv_close(&kv);
}

/* ---- clients ---------------------------------------------------------- */

/* The process of a client. It begins when all are connected. */
static void client(const struct plan *p, uint32_t *ns, int ready, int go)
{
	static struct kv kv;
	const bool tcp = p->how == BY_TCP;
	uint64_t last;
	char byte = 0;

	kv_open(&kv, tcp, opts.host, tcp ? opts.tcp_port : opts.port);
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) < 0)
		err(1, "the other clients");
	last = now_ns();
	for (unsigned long i = 0; i < opts.count; i++) {
		uint64_t now;

		do_request(&kv, p, i);
		now = now_ns();
		ns[i] = (uint32_t)(now - last < UINT32_MAX ? now - last :
							     UINT32_MAX);
		last = now;
	}
	kv_close(&kv);
	exit(0);
}

/* The parent opens no RDMA, so that its children may. */
static void start_clients(const struct plan *p, uint32_t *ns, int ready[2],
			  int go[2])
{
	fflush(stdout);
	for (unsigned long i = 0; i < opts.clients; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid)
			continue;
		close(go[1]);
		client(p, ns + i * opts.count, ready[1], go[0]);
	}
	close(ready[1]);
	close(go[0]);
}

static void await_clients(void)
{
	for (unsigned long i = 0; i < opts.clients; i++) {
		int status;

		if (wait(&status) < 0 || status)
			errx(1, "a client has failed");
	}
}

/* Returns the seconds that the slowest client took. */
static double run_clients(const struct plan *p, uint32_t *ns)
{
	int ready[2], go[2];
	uint64_t began;
	char byte;

	if (pipe(ready) || pipe(go))
		err(1, "pipe");
	start_clients(p, ns, ready, go);
	for (unsigned long i = 0; i < opts.clients; i++)
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "a client has failed");
	began = now_ns();
	close(go[1]);
	await_clients();
	close(ready[0]);
	return (double)(now_ns() - began) / 1e9;
}

/* ---- results ---------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

double load_percentile(const struct way *w, double part)
{
	size_t i = (size_t)(part * (double)w->count);

	return w->ns[i < w->count ? i : w->count - 1] / 1000.0;
}

static struct way measure(const struct plan *p)
{
	struct way w = { .name = p->name, .count = opts.clients * opts.count };
	double seconds;

	w.ns = mmap(NULL, w.count * sizeof(*w.ns), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w.ns == MAP_FAILED)
		err(1, "memory for %zu figures", w.count);
	seconds = run_clients(p, w.ns);
	w.per_second = (double)w.count / seconds;
	qsort(w.ns, w.count, sizeof(*w.ns), compare);
	return w;
}

static void print(const struct way *w)
{
	printf("%-14s %9.0f/s %9.1f %9.1f %9.1f %9.1f\n", w->name,
	       w->per_second, load_percentile(w, 0.5), load_percentile(w, 0.99),
	       load_percentile(w, 0.999), load_percentile(w, 1));
}

static void measure_all(void)
{
	struct way ways[NR_PLANS];
	size_t count = 0;

	printf("%lu clients, values of %lu bytes\n", opts.clients, opts.bytes);
	printf("%-14s %11s %9s %9s %9s %9s\n", "", "requests", "p50 us",
	       "p99 us", "p99.9 us", "max us");
	for (size_t i = 0; i < NR_PLANS; i++) {
		if (plans[i].puts && !opts.puts)
			continue;
		ways[count] = measure(&plans[i]);
		print(&ways[count++]);
	}
	if (opts.plot)
		load_plot(opts.plot, ways, count);
}

/* ---- options ---------------------------------------------------------- */

static void help(void)
{
	printf("Usage: kv-load [OPTION...] HOST PORT TCP-PORT\n"
	       "  -n, --count=N    requests of each client, 10000\n"
	       "  -c, --clients=N  processes, 1\n"
	       "  -s, --size=N     bytes of a value, 64\n"
	       "  -k, --keys=N     16\n"
	       "      --puts       measures puts as well\n"
	       "      --plot=FILE  draws FILE.svg or FILE.png with gnuplot\n"
	       "  -h, --help\n");
	exit(0);
}

static unsigned long number(const char *text, unsigned long most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || !n || n > most)
		errx(2, "'%s' is not a number from 1 to %lu; see --help", text,
		     most);
	return n;
}

static void take_option(int c)
{
	switch (c) {
	case 'n':
		opts.count = number(optarg, 10000000);
		break;
	case 'c':
		opts.clients = number(optarg, CLIENTS_MAX);
		break;
	case 's':
		opts.bytes = number(optarg, KV_VALUE_MAX);
		break;
	case 'k':
		opts.keys = number(optarg, KV_SLOTS / 2);
		break;
	case 'P':
		opts.plot = optarg;
		load_plot_check(optarg);
		break;
	case 'p':
		opts.puts = true;
		break;
	case 'h':
		help();
		break;
	default:
		errx(2, "see --help");
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' },
		{ "clients", required_argument, NULL, 'c' },
		{ "size", required_argument, NULL, 's' },
		{ "keys", required_argument, NULL, 'k' },
		{ "puts", no_argument, NULL, 'p' },
		{ "plot", required_argument, NULL, 'P' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "n:c:s:k:h", options, NULL)) != -1)
		take_option(c);
	if (argc - optind != 3)
		errx(2, "HOST, PORT and TCP-PORT; see --help");
	opts.host = argv[optind];
	opts.port = argv[optind + 1];
	opts.tcp_port = argv[optind + 2];
	put_keys();
	measure_all();
	return 0;
}
