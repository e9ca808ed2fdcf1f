/* SPDX-License-Identifier: BSD-2-Clause */
/* The choice of the call that fails, and the counts of calls. */
#include "faulty_call.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <time.h>

static const char *const names[] = {
#define X(name, how, err) #name,
	FAULTY_ALL(X)
#undef X
};

const int faulty_errors[] = {
#define X(name, how, err) err,
	FAULTY_ALL(X)
#undef X
};

const char faulty_hows[] = {
#define X(name, how, err) #how[0],
	FAULTY_ALL(X)
#undef X
};

const char *const faulty_kinds[FAULTY_KINDS] = {
	"device lists", "devices", "protection domains", "regions",
	"completion channels", "completion queues",
	"shared receive queues", "queue pairs", "indirect keys",
	"address handles", "windows", "event channels", "ids",
	"unacknowledged CM events", "heap blocks", "mapped pages",
	"address lists",
};

static struct {
	int call;		/* the call to fail, -1: none */
	uint32_t nth, seen;
	bool persistent, met;
} armed = { .call = -1 };

/* atomic, because a thread resolves names */
static _Atomic uint32_t counts[FAULTY_CALLS];
_Atomic long faulty_living[FAULTY_KINDS];
static uint64_t delayed_until;

const char *faulty_name(enum faulty_call call)
{
	return names[call];
}

void faulty_arm(enum faulty_call call, uint32_t nth, bool persistent)
{
	armed.call = (int)call;
	armed.nth = nth;
	armed.seen = 0;
	armed.persistent = persistent;
	armed.met = false;
}

bool faulty_disarm(void)
{
	armed.call = -1;
	return armed.met;
}

void faulty_count_start(void)
{
	for (int i = 0; i < FAULTY_CALLS; i++)
		counts[i] = 0;
}

uint32_t faulty_count(enum faulty_call call)
{
	return counts[call];
}

long faulty_alive(enum faulty_kind kind)
{
	return faulty_living[kind];
}

const char *faulty_leftovers(void)
{
	static char text[256];
	size_t len = 0;

	text[0] = 0;
	for (int i = 0; i < FAULTY_KINDS; i++)
		if (faulty_living[i] && len < sizeof(text))
			len += (size_t)snprintf(text + len, sizeof(text) - len,
						"%s%ld %s", len ? ", " : "",
						(long)faulty_living[i],
						faulty_kinds[i]);
	return text;
}

void faulty_forget(void)
{
	for (int i = 0; i < FAULTY_KINDS; i++)
		faulty_living[i] = 0;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void faulty_delay(uint32_t ms)
{
	delayed_until = ms ? now_ms() + ms : 0;
}

bool faulty_delayed(void)
{
	return delayed_until && now_ms() < delayed_until;
}

bool faulty_fails(enum faulty_call call)
{
	counts[call]++;
	if (armed.call != (int)call)
		return false;
	armed.seen++;
	if (armed.seen < armed.nth ||
	    (armed.seen > armed.nth && !armed.persistent))
		return false;
	armed.met = true;
	errno = faulty_errors[call];
	return true;
}
