/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every scenario is run once to count the calls that it makes below the
 * library, then again for each of them: with that one failing, and with that
 * one and all later ones failing. Whatever fails, it is reported, every
 * accepted cookie ends exactly once, nothing hangs, nothing is left, and the
 * same contexts can connect again.
 *
 * Usage: nth [SCENARIO[/CALL[/N]]]...
 *        nth -l	names the scenarios
 * The device is that of RDMAMSG_VM_ADDR (10.9.0.1 if there is no such thing),
 * whose name is RDMAMSG_VM_HOST.
 */
#include "base/util.h"
#include "device/verbs_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../fds.h"
#include "faulty.h"
#include "nth.h"

#define HANG_S		60	/* one run, at most */
#define LATE_MS		(is_iwarp() ? 20000 : 0)

#define AREAS		((int)(sizeof(areas) / sizeof(areas[0])))
static const struct scenario *const areas[] = {
	connect_scenarios, message_scenarios, memory_scenarios,
	event_scenarios, oob_scenarios, group_scenarios,
	chain_scenarios,
	dc_scenarios,
};

static void prepare(const struct scenario *s)
{
	moving = s->moving;
	exporting = s->exporting;
	joint = s->joint;
	shared = s->shared;
	own_cq = s->own_cq;
	narrow = s->narrow;
	guarded = s->guarded;
	keyed = s->keyed;
	oob = s->oob;
	by_name = s->by_name;
	patient = s->patient;
	failover = s->failover;
	lanes = s->lanes;
	sound = true;
	forget_ends();
	if (s->before >= OPEN)
		open_all();
	if (s->before >= LISTENING)
		start_listening();
	if (s->before >= CONNECTED) {
		do_connect();
		if (!ends[CLIENT].connected || !ends[SERVER].connected)
			fail("no connection to begin with: %s",
			     ends[CLIENT].why.text);
	}
	sound = false;
	reported = 0;
	migrated = false;
}

/* Returns true if the scenario ended as it does without a fault. */
static bool came_through(const struct scenario *s)
{
	if (s->body == do_connect)
		return ends[CLIENT].connected && ends[SERVER].connected;
	if (s->failover)
		return migrated || reported;
	return true;
}

/* Connects and exchanges again in the same contexts, without faults. */
static void use_again(void)
{
	for (int i = 0; i < 2; i++)
		if (ends[i].ep)
			rdmamsg_ep_abort(ends[i].ep);
	if (!drive(no_endpoints, BODY_MS)) {
		fail("an endpoint does not end");
		return;
	}
	for (int i = 0; i < 2; i++)
		if (ends[i].connected && ends[i].closed != 1)
			fail("%s: closed %d times", ends[i].name,
			     ends[i].closed);
	forget_ends();
	sound = true;
	by_name = patient = false;
	open_all();
	start_listening();
	reported = 0;
	do_connect();
	/* an earlier request may fail at the server, so check the client only */
	if (!ends[CLIENT].connected) {
		fail("used again: not connected: %s", ends[CLIENT].closed ?
		     ends[CLIENT].why.text : rdmamsg_error());
		return;
	}
	reported = 0;
	send_items(&ends[CLIENT], 1, 5);
	if (!drive(is_exchanged, BODY_MS))
		fail("used again: exchanging is not over");
	do_close();
	if (reported)
		fail("used again: %s", ends[CLIENT].closed ?
		     ends[CLIENT].why.text : rdmamsg_error());
}

static void close_all(void)
{
	for (int i = 0; i < CTXS; i++)
		close_ctx(i);
	forget_ends();
}

static bool is_iwarp(void)
{
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	return link && !strcmp(link, "iwarp");
}

static int fds_before;

/*
 * Over iWARP a thread destroys what a call to a peer holds that has not accepted
 * yet. Looks for what is left until it is done.
 */
static void look_for_leftovers(void)
{
	for (int ms = 0; ms < LATE_MS && (faulty_leftovers()[0] ||
					  open_fds() != fds_before); ms++)
		usleep(1000);
	if (faulty_leftovers()[0])
		fail("left: %s", faulty_leftovers());
	else if (open_fds() != fds_before)
		fail("left: %d descriptors", open_fds() - fds_before);
}

/* Returns true if the scenario met the fault. */
static bool run(const struct scenario *s, int call, uint32_t nth,
		bool persistent)
{
	bool met;

	failure[0] = 0;
	log_start();
	texts_start();
	alarm(HANG_S);
	prepare(s);
	faulty_count_start();
	if (call >= 0)
		faulty_arm((enum faulty_call)call, nth, persistent);
	if (!failure[0])
		s->body();
	met = faulty_disarm();
	faulty_delay(0);
	if (!failure[0] && (call < 0 || !reported) && !came_through(s))
		fail(call < 0 ? "not connected" : "nothing was reported");
	if (call < 0)
		return false;
	if (!failure[0])
		use_again();
	close_all();
	if (!failure[0])
		look_for_leftovers();
	alarm(0);
	return met;
}

/* Returns the last call to fail. Polling calls repeat without end. */
static uint32_t bound(int call)
{
	switch (call) {
	case FAULTY_poll_cq:
	case FAULTY_get_cq_event:
	case FAULTY_req_notify_cq:
	case FAULTY_get_cm_event:
	case FAULTY_ack_cm_event:
	case FAULTY_wc_send:
	case FAULTY_wc_recv:
		return 4;
	case FAULTY_calloc:
		return 24;
	default:
		return 12;
	}
}

static int run_call(const struct scenario *s, int call, uint32_t count,
		    uint32_t only)
{
	uint32_t last = min(count, bound(call)), runs = 0;
	int bad = 0;

	for (uint32_t nth = 1; nth <= last; nth++) {
		for (int persistent = 0; persistent < 2; persistent++) {
			/*
			 * a persistent fault rarely finds more from the third
			 * call on
			 */
			if ((only && nth != only) ||
			    (!only && persistent && nth > 2))
				continue;
			snprintf(what, sizeof(what), "%s/%s/%u%s", s->name,
				 faulty_name((enum faulty_call)call), nth,
				 persistent ? " and on" : "");
			runs++;
			run(s, call, nth, persistent);
			if (!failure[0])
				continue;
			bad++;
			printf("not ok %s: %s\n", what, failure);
			log_print();
			faulty_forget();	/* the next runs start anew */
		}
	}
	if (!bad && runs)
		printf("ok %s/%s, %u runs\n", s->name,
		       faulty_name((enum faulty_call)call), runs);
	fflush(stdout);
	return bad;
}

static bool is_wanted(const struct scenario *s, const char *call,
		      const char *only_call)
{
	char word[64];

	if (only_call)
		return !strcmp(call, only_call);
	snprintf(word, sizeof(word), " %s ", call);
	return !s->calls || strstr(s->calls, word);
}

static int run_calls(const struct scenario *s, const char *only_call,
		     uint32_t only)
{
	uint32_t count[FAULTY_CALLS];
	int bad = 0;

	snprintf(what, sizeof(what), "%s", s->name);
	run(s, -1, 0, false);
	for (int i = 0; i < FAULTY_CALLS; i++)
		count[i] = faulty_count((enum faulty_call)i);
	close_all();
	if (!failure[0] && faulty_leftovers()[0])
		fail("left: %s", faulty_leftovers());
	if (failure[0]) {
		printf("not ok %s, without a fault: %s\n", what, failure);
		log_print();
		return 1;
	}
	printf("ok %s, without a fault\n", s->name);
	for (int i = 0; i < FAULTY_CALLS; i++)
		if (is_wanted(s, faulty_name((enum faulty_call)i), only_call))
			bad += run_call(s, i, count[i], only);
	return bad;
}

static int run_scenario(const struct scenario *s, const char *only_call,
			uint32_t only)
{
	time_t began = time(NULL);
	int bad = run_calls(s, only_call, only);

	printf("# took %ld %s\n", (long)(time(NULL) - began), s->name);
	fflush(stdout);
	return bad;
}

/* The kernel's devices take long to make lanes. iWARP has neither oob nor DC. */
static bool suits_link(const struct scenario *s)
{
	if (is_iwarp() && (s->oob || !strncmp(s->name, "oob", 3)))
		return false;
	return (!s->lanes && !s->native) || getenv("RDMAMSG_SOFT_FABRIC");
}

static void list_scenarios(void)
{
	for (int i = 0; i < AREAS; i++)
		for (const struct scenario *s = areas[i]; s->name; s++)
			if (!s->named && suits_link(s))
				puts(s->name);
}

static const struct scenario *find(const char *name)
{
	for (int i = 0; i < AREAS; i++)
		for (const struct scenario *s = areas[i]; s->name; s++)
			if (!strcmp(name, s->name))
				return s;
	return NULL;
}

/*
 * Runs a scenario in another process, because the library reads its environment
 * once.
 */
static int run_apart(const char *name, const struct scenario *s)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (s->stats)
			setenv("RDMAMSG_STATS", s->stats, 1);
		if (s->failover)
			setenv("RDMAMSG_SOFT_LINK", "ib", 1);
		execl("/proc/self/exe", "nth", name, NULL);
		_exit(1);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

static bool is_apart(const struct scenario *s)
{
	return (s->stats && !getenv("RDMAMSG_STATS")) ||
	       (s->failover && !getenv("RDMAMSG_SOFT_LINK"));
}

/* Runs SCENARIO, SCENARIO/CALL, or SCENARIO/CALL/N. */
static int run_named(char *name)
{
	char whole[128];
	const struct scenario *s;
	char *call = strchr(name, '/'), *nth = NULL;

	snprintf(whole, sizeof(whole), "%s", name);
	if (call) {
		*call++ = 0;
		nth = strchr(call, '/');
	}
	if (nth)
		*nth++ = 0;
	s = find(name);
	if (s && is_apart(s))
		return run_apart(whole, s);
	if (s)
		return run_scenario(s, call, nth ? (uint32_t)atoi(nth) : 0);
	printf("not ok %s: no such scenario\n", name);
	return 1;
}

/*
 * A queue pair that the device does not destroy keeps its XRC domain, so that
 * ibv_close_xrcd() is refused as well (lib/device/trial_objects.c). The
 * injector destroys the queue pair later, but has no table for domains.
 */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:soft_open_xrcd\n";
}

int main(int argc, char **argv)
{
	int bad = 0;

	if (argc == 2 && !strcmp(argv[1], "-l")) {
		list_scenarios();
		return 0;
	}
	if (getenv("RDMAMSG_VM_ADDR"))
		address = getenv("RDMAMSG_VM_ADDR");
	if (getenv("RDMAMSG_VM_HOST"))
		host = getenv("RDMAMSG_VM_HOST");
	if (rdmamsg_devices(NULL, 0, 0) <= 0) {
		fprintf(stderr, "no RDMA device\n");
		return 77;
	}
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
	signal(SIGALRM, on_alarm);
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_DEBUG);
	rdmamsg__verbs = &faulty_verbs;
	/* this run makes what the libraries below keep for ever */
	run(find("connect"), -1, 0, false);
	close_all();
	fds_before = open_fds();
	for (int i = 1; i < argc; i++)
		bad += run_named(argv[i]);
	for (int i = 0; argc == 1 && i < AREAS; i++)
		for (const struct scenario *s = areas[i]; s->name; s++)
			bad += s->named || s->native ? 0 :
			       is_apart(s) ? run_apart(s->name, s) :
			       run_scenario(s, NULL, 0);
	return bad ? 1 : 0;
}
