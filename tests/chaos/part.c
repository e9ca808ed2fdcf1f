/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A round on two hosts: the servers on one, the clients on the other. Each
 * host has a parent, which harms its own processes. The journals are judged
 * together.
 */
#include "chaos.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTEN_MS	30000

static bool take_ports(struct round *r, char *ports)
{
	uint32_t slot = 0;

	for (char *word = strtok(ports, ","); word; word = strtok(NULL, ","))
		if (slot < r->sc->servers)
			r->board->port[slot++] = (uint32_t)atoi(word);
	return slot == r->sc->servers;
}

/* Prints the line that the other host waits for. */
static void tell_ports(struct round *r)
{
	uint64_t end = now_ms() + LISTEN_MS;

	for (uint32_t i = 0; i < r->sc->servers; i++)
		while (!r->board->port[i] && now_ms() < end)
			(void)poll(NULL, 0, 10);
	printf("pid %d\nports ", (int)getpid());
	for (uint32_t i = 0; i < r->sc->servers; i++)
		printf("%s%u", i ? "," : "", r->board->port[i]);
	printf("\n");
}

static void save(struct round *r, const char *dir)
{
	for (uint32_t s = r->first_slot; s < r->end_slot; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++)
			if (!journal_save(r->journal[s][i], dir))
				round_violation(r, "no journal in %s", dir);
}

int part_run(struct round *r, const char *part, char *ports, const char *dir)
{
	bool servers = !strcmp(part, "servers");

	r->first_slot = servers ? 0 : r->sc->servers;
	r->end_slot = servers ? r->sc->servers :
		      r->sc->servers + r->sc->clients;
	r->until_told = servers;
	if (!servers && (!ports || !take_ports(r, ports)))
		return 2;
	for (uint32_t s = r->first_slot; s < r->end_slot; s++)
		process_start(r, s);
	if (servers)
		tell_ports(r);
	round_work(r);
	save(r, dir);
	printf("%s\n", r->violations ? r->violation : "done");
	return r->violations ? 1 : 0;
}

/* ---- judging together ------------------------------------------------- */

static bool add(struct round *r, const char *path)
{
	struct journal *j = journal_load(path);

	if (!j || j->slot >= SLOTS || j->life >= LIVES ||
	    j->scenario >= scenario_count)
		return false;
	r->journal[j->slot][j->life] = j;
	if (r->process[j->slot].life <= j->life)
		r->process[j->slot].life = j->life + 1;
	r->board->seed = j->seed;
	r->board->scenario = j->scenario;
	r->board->max_size = j->max_size;
	r->sc = &scenarios[j->scenario];
	return true;
}

static bool add_all(struct round *r, const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];
	bool good = d;

	while (d && (e = readdir(d))) {
		if (!strstr(e->d_name, ".journal"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		good &= add(r, path);
	}
	if (d)
		(void)closedir(d);
	return good;
}

int part_judge(struct totals *totals, char **dirs)
{
	static struct round r;
	static struct board board;

	r.board = &board;
	r.totals = totals;
	for (; *dirs; dirs++)
		if (!add_all(&r, *dirs)) {
			printf("not ok chaos: no journals in %s\n", *dirs);
			return 1;
		}
	totals->rounds = 1;
	judge(&r);
	return r.violations ? 1 : 0;
}
