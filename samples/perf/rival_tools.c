/* SPDX-License-Identifier: BSD-2-Clause */
/* compare: UCX and libfabric by the tools of their own, where those are. */
#include "rival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT		8192
#define PATIENCE_S	20	/* until the server listens */
#define PAUSE_NS	50000000
/* more round trips take minutes on a busy machine */
#define PING_COUNT	"20000"
#define SMALL_COUNT	"100000"
#define LARGE_COUNT	"1000"
#define LARGE		65536
#define WORDS		24
/* messages that ucx_perftest leaves out; fi_pingpong has no warm-up */
#define WARMUP		500
#define TEXT(number)	#number
#define NUMBER_TEXT(n)	TEXT(n)

struct command {
	const char *words[WORDS];
	int count;
};

static void word(struct command *c, const char *text)
{
	if (c->count < WORDS - 1)
		c->words[c->count++] = text;
}

static void words(struct command *c, const char *const *list)
{
	for (; *list; list++)
		word(c, *list);
}

/* Becomes the tool, with its output and its messages in 'out'. */
static void become(const struct command *c, int out)
{
	if (dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
		execvp(c->words[0], (char *const *)(uintptr_t)c->words);
	_exit(127);
}

/* Runs the tool. Returns its exit status, and its output as a string. */
static int capture(const struct command *c, char out[OUTPUT])
{
	const pid_t parent = getpid();
	FILE *f = tmpfile();
	int status = -1;
	size_t n = 0;
	pid_t child;

	out[0] = 0;
	if (!f)
		return 1;
	child = fork();
	if (!child) {
		rival_child(parent);
		become(c, fileno(f));
	}
	if (child > 0)
		while (waitpid(child, &status, 0) != child && errno == EINTR)
			;
	if (child > 0 && !fseek(f, 0, SEEK_SET))
		n = fread(out, 1, OUTPUT - 1, f);
	out[n] = 0;
	fclose(f);
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Runs the client until its server is there. */
static int capture_client(const struct command *c, char out[OUTPUT])
{
	const struct timespec pause = { 0, PAUSE_NS };
	double end = rival_now() + PATIENCE_S;
	int status;

	while ((status = capture(c, out)) && rival_now() < end)
		nanosleep(&pause, NULL);
	return status;
}

static bool found(const char *tool)
{
	const char *path = getenv("PATH");
	char name[4096];

	while (path && *path) {
		int n = (int)strcspn(path, ":");

		if (snprintf(name, sizeof(name), "%.*s/%s", n, path, tool) <
		    (int)sizeof(name) && !access(name, X_OK))
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

/* ---- UCX -------------------------------------------------------------- */

static bool there_ucx(const struct rival *r)
{
	(void)r;
	return found("ucx_perftest");
}

/* An ucx_perftest that is built with MPI wants mpirun unless it has '-P 0'. */
static bool has_mpi(void)
{
	const struct command help = { { "ucx_perftest", "-h" }, 2 };
	char out[OUTPUT];

	(void)capture(&help, out);
	return strstr(out, " -P <0|1>");
}

struct numbers {
	char port[8], size[16];
};

static struct numbers numbers(const struct rival_run *run)
{
	struct numbers n;

	snprintf(n.port, sizeof(n.port), "%u", run->port);
	snprintf(n.size, sizeof(n.size), "%u", run->size);
	return n;
}

static const char *count_of(const struct rival_run *run)
{
	if (run->size >= LARGE)
		return LARGE_COUNT;
	return run->figure == RIVAL_USEC ? PING_COUNT : SMALL_COUNT;
}

static struct command ucx(const struct rival_run *run, const struct numbers *n)
{
	const char *const list[] = {
		"ucx_perftest", "-t", run->figure == RIVAL_USEC ? "tag_lat" :
		"tag_bw", "-s", n->size, "-n", count_of(run),
		"-w", NUMBER_TEXT(WARMUP), "-p", n->port, "-f", "-v", NULL,
	};
	struct command c = { .count = 0 };

	words(&c, list);
	if (has_mpi()) {
		word(&c, "-P");
		word(&c, "0");
	}
	return c;
}

static int serve_ucx(const struct rival_run *run)
{
	struct numbers n = numbers(run);
	struct command c = ucx(run, &n);

	become(&c, STDOUT_FILENO);
	return 1;
}

/*
 * The last line of figures has the iterations, three latencies, the first of
 * which is the median, two bandwidths in MB of 2^20 bytes, and two rates. The
 * second of each pair is of the whole run.
 */
static int read_ucx(char *out, const struct rival_run *run,
		    struct rival_result *ret)
{
	double row[8];
	int status = 1;

	for (char *at = out; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (sscanf(at, "%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf", &row[0],
			   &row[1], &row[2], &row[3], &row[4], &row[5],
			   &row[6], &row[7]) != 8)
			continue;
		ret->value = run->figure == RIVAL_USEC ? row[1] :
			     run->figure == RIVAL_RATE ? row[7] :
							 row[5] * 1048576;
		ret->warmup = WARMUP;
		status = 0;
	}
	return status;
}

static int client_ucx(const struct rival_run *run, struct rival_result *ret)
{
	struct numbers n = numbers(run);
	struct command c = ucx(run, &n);
	char out[OUTPUT];
	int status;

	word(&c, "127.0.0.1");
	status = capture_client(&c, out);
	return status ? status : read_ucx(out, run, ret);
}

/* ---- libfabric -------------------------------------------------------- */

static bool there_libfabric(const struct rival *r)
{
	(void)r;
	return found("fi_pingpong");
}

static struct command pingpong(const struct rival_run *run,
			       const struct numbers *n, bool server)
{
	const char *const list[] = {
		"fi_pingpong", "-p", "shm", "-e", "rdm", "-I", count_of(run),
		"-S", n->size, server ? "-B" : "-P", n->port,
		server ? NULL : "127.0.0.1", NULL,
	};
	struct command c = { .count = 0 };

	words(&c, list);
	return c;
}

static int serve_libfabric(const struct rival_run *run)
{
	struct numbers n = numbers(run);
	struct command c = pingpong(run, &n, true);

	become(&c, STDOUT_FILENO);
	return 1;
}

/* A line of figures: bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec */
static int read_libfabric(char *out, struct rival_result *ret)
{
	int status = 1;

	for (char *at = out; at; at = strchr(at, '\n')) {
		char count[16];
		double usec;

		at += *at == '\n';
		if (sscanf(at, "%*s %15[0-9]%*s %*s %*s %*s %*s %lf %*f", count,
			   &usec) != 2)
			continue;
		ret->value = usec;
		status = 0;
	}
	return status;
}

static int client_libfabric(const struct rival_run *run,
			    struct rival_result *ret)
{
	struct numbers n = numbers(run);
	struct command c = pingpong(run, &n, false);
	char out[OUTPUT];
	int status = capture_client(&c, out);

	return status ? status : read_libfabric(out, ret);
}

const struct rival rival_ucx_tool[] = {
	{ .name = "UCX, its tool",
	  .flags = "ucx_perftest -t tag_lat, tag_bw -s SIZE -n COUNT "
		   "-w " NUMBER_TEXT(WARMUP) " -f -v, -P 0 if it has MPI",
	  .variable = "UCX_TLS", .value = "posix,cma,self",
	  .figures = { true, true, true }, .wants_port = true, .tool = true,
	  .there = there_ucx, .serve = serve_ucx, .client = client_ucx },
	{ .name = NULL },
};

const struct rival rival_fabric_tool[] = {
	{ .name = "libfabric, its tool",
	  .flags = "fi_pingpong -p shm -e rdm -I COUNT -S SIZE",
	  .figures = { true, false, false }, .wants_port = true, .tool = true,
	  .there = there_libfabric, .serve = serve_libfabric,
	  .client = client_libfabric },
	{ .name = NULL },
};
