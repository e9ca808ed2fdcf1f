/* SPDX-License-Identifier: BSD-2-Clause */
/* Code that the hostile client and the hostile server share. */
#include "misdeeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *address = "10.9.0.1";

static uint64_t ends(const struct rdmamsg_stats *s)
{
	uint64_t all = 0;

	for (size_t i = 0; i < sizeof(s->ended) / sizeof(s->ended[0]); i++)
		all += s->ended[i];
	return all;
}

/* Each connection that a hostile peer has ended counts once. */
static void ends_are_counted(const struct rdmamsg_stats *start, uint32_t ended)
{
	const struct rdmamsg_stats *s = &victims->stats;
	char name[32];

	snprintf(name, sizeof(name), "%s-ends", victim);
	verdict(name, ends(s) - ends(start) == victims->ended - ended &&
		(only_case || s->ended[RDMAMSG_CAUSE_PROTOCOL] >
			      start->ended[RDMAMSG_CAUSE_PROTOCOL]),
		"%u ended; counted %llu, then %llu, %llu for the protocol",
		victims->ended - ended, (unsigned long long)ends(start),
		(unsigned long long)ends(s),
		(unsigned long long)s->ended[RDMAMSG_CAUSE_PROTOCOL]);
}

static bool is_left(const struct rdmamsg_stats *start, int fds)
{
	const struct rdmamsg_stats *s = &victims->stats;

	victims_wish(victim_wish(), WISH_STATS);
	return s->endpoints != start->endpoints || s->msgs_lent > 1 ||
	       s->bytes_registered > start->bytes_registered + (96u << 20) ||
	       victims->fds > fds + 1;
}

/*
 * A hostile peer must not leave anything behind. The device learns of the end of
 * the last process that misbehaved in a thread of its own.
 */
static void nothing_left(const struct rdmamsg_stats *start, int fds)
{
	const struct rdmamsg_stats *s = &victims->stats;
	char name[32];
	bool left = true;

	for (int ms = 0; ms < PATIENT_MS && (left = is_left(start, fds)); ms++)
		usleep(1000);
	snprintf(name, sizeof(name), "%s-resources", victim);
	verdict(name, !left,
		"endpoints %llu, then %llu; lent %llu; registered %llu, then "
		"%llu; descriptors %d, then %d",
		(unsigned long long)start->endpoints,
		(unsigned long long)s->endpoints,
		(unsigned long long)s->msgs_lent,
		(unsigned long long)start->bytes_registered,
		(unsigned long long)s->bytes_registered, fds, victims->fds);
	snprintf(name, sizeof(name), "%s-cookies", victim);
	verdict(name, victims->accepted == victims->done,
		"%u accepted, %u ended", victims->accepted, victims->done);
}

int main(int argc, char **argv)
{
	struct rdmamsg_stats start;
	struct ibv_context **devices;
	uint32_t ended;
	int n = 0, fds;

	if (argc > 1)
		address = argv[1];
	else if (getenv("RDMAMSG_VM_ADDR"))
		address = getenv("RDMAMSG_VM_ADDR");
	if (argc > 2)
		only_case = argv[2];
	/* the victims must start before this process uses RDMA */
	victims_start(address);
	devices = rdma_get_devices(&n);
	if (!devices || !n) {
		fprintf(stderr, "no RDMA device\n");
		return 77;
	}
	rdma_free_devices(devices);
	if (!victims_innocent_goes_on()) {
		printf("not ok innocent: %s\n", victims->harm);
		return 1;
	}
	if (!meet()) {
		printf("not ok meet: %s\n", victims->harm);
		return 1;
	}
	victims_wish(victim_wish(), WISH_STATS);
	start = victims->stats;
	fds = victims->fds;
	ended = victims->ended;
	misbehave_all();
	nothing_left(&start, fds);
	ends_are_counted(&start, ended);
	verdict("innocent", victims_innocent_goes_on(), "%s", victims->harm);
	return !victims_stop() || failures ? 1 : 0;
}
