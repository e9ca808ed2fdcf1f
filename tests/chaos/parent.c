/* SPDX-License-Identifier: BSD-2-Clause */
/* The parent starts, kills, restarts and ends the processes of a round. */
#include "chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURN_MS		5
#define END_MS		120000	/* a process ends far earlier */
#define RESTART_MS	300
#define BEGIN_MS	30000	/* longest wait for the first connection */

void round_violation(struct round *r, const char *fmt, ...)
{
	char text[sizeof(r->violation)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!r->violations++)
		snprintf(r->violation, sizeof(r->violation), "%s", text);
	printf("# violation: %s\n", text);
}

void round_blame(struct round *r, const struct journal *j)
{
	r->blamed[j->slot] |= 1ull << j->life;
}

static void open_log(const struct round *r, uint32_t slot, uint32_t life)
{
	char path[sizeof(r->dir) + 64];
	int fd;

	snprintf(path, sizeof(path), "%s/process-%u-%u.log", r->dir, slot,
		 life);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
	if (fd < 0)
		return;
	(void)dup2(fd, 1);
	(void)dup2(fd, 2);
	close(fd);
}

static void child(const struct round *r, uint32_t slot, uint32_t life, int fd)
{
	char text[4][16];

	open_log(r, slot, life);
	snprintf(text[0], sizeof(text[0]), "%u", slot);
	snprintf(text[1], sizeof(text[1]), "%u", life);
	snprintf(text[2], sizeof(text[2]), "%d", r->board_fd);
	snprintf(text[3], sizeof(text[3]), "%d", fd);
	(void)execl("/proc/self/exe", "chaos", "--child", text[0], text[1],
		    text[2], text[3], (char *)NULL);
	_exit(127);
}

void process_start(struct round *r, uint32_t slot)
{
	struct process *p = &r->process[slot];
	struct journal *j;
	int fd;

	if (p->life == LIVES)
		return;
	fd = share_new(JOURNAL_SIZE);
	j = fd < 0 ? NULL : share(fd, JOURNAL_SIZE);
	if (!j) {
		round_violation(r, "no journal: %s", strerror(errno));
		return;
	}
	j->slot = slot;
	j->life = p->life;
	j->seed = r->board->seed;
	j->scenario = r->board->scenario;
	j->max_size = r->board->max_size;
	j->harmed = r->sc->harm & (HARM_INJECT | HARM_FILES | HARM_LOSS);
	j->kernel = getenv("RDMAMSG_VM") != NULL;
	fflush(stdout);
	p->pid = fork();
	if (!p->pid)
		child(r, slot, p->life, fd);
	close(fd);
	j->pid = p->pid;
	r->journal[slot][p->life++] = j;
	p->start_at = 0;
	p->stopped = false;
}

static struct journal *journal_of(struct round *r, uint32_t slot)
{
	return r->journal[slot][r->process[slot].life - 1];
}

void process_kill(struct round *r, uint32_t slot)
{
	struct process *p = &r->process[slot];

	journal_of(r, slot)->killed = 1;
	journal_of(r, slot)->harmed |= HARM_KILL;
	(void)kill(p->pid, SIGKILL);
	(void)waitpid(p->pid, NULL, 0);
	p->pid = 0;
	p->start_at = now_ms() + rng_below(&r->rng, RESTART_MS);
}

/* Handles a process that has ended by itself. */
static void ended(struct round *r, uint32_t slot, int status)
{
	const struct journal *j = journal_of(r, slot);

	r->process[slot].pid = 0;
	if (!status && j->ended)
		return;
	round_violation(r, "process %u-%u has ended with %s %d", slot, j->life,
			WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) :
					      WEXITSTATUS(status));
	round_blame(r, j);
}

/* Returns the number of processes that still run. */
static uint32_t reap(struct round *r)
{
	uint32_t n = 0;
	int status;

	for (uint32_t s = r->first_slot; s < r->end_slot; s++) {
		if (!r->process[s].pid)
			continue;
		if (waitpid(r->process[s].pid, &status, WNOHANG) ==
		    r->process[s].pid)
			ended(r, s, status);
		else
			n++;
	}
	return n;
}

/* A late turn of the parent shows that the processes had to wait as well. */
static void turn(struct round *r)
{
	uint64_t began = now_ms(), took;

	(void)poll(NULL, 0, TURN_MS);
	took = now_ms() - began;
	if (took > 4 * TURN_MS)
		r->board->late_ms += (uint32_t)took;
}

static bool is_connected(const struct round *r)
{
	for (uint32_t s = r->first_slot; s < r->end_slot; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++) {
			const struct journal *j = r->journal[s][i];

			for (uint32_t n = 0; n < j->records; n++)
				if (j->record[n].connected)
					return true;
		}
	return false;
}

/* Waits for the first connection, which starts the load and the faults. */
static void begin(struct round *r)
{
	uint64_t end = now_ms() + BEGIN_MS;

	while (!is_connected(r) && now_ms() < end && reap(r) &&
	       !r->violations && !interrupted)
		turn(r);
}

static void load(struct round *r)
{
	uint64_t end;

	begin(r);
	end = now_ms() + r->load_ms;
	harm_start(r);
	while ((r->until_told || now_ms() < end) && !r->violations &&
	       !interrupted) {
		turn(r);
		watch(r);
		harm_step(r);
		(void)reap(r);
		for (uint32_t s = r->first_slot; s < r->end_slot; s++)
			if (r->process[s].start_at &&
			    now_ms() >= r->process[s].start_at)
				process_start(r, s);
	}
	harm_end(r);
	/* here the signal only ends the load */
	if (r->until_told)
		interrupted = 0;
}

/* Prints the kernel stack of a process to the log, if root runs this. */
static void print_stack(pid_t pid)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stack", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		printf("  %s", line);
	if (f)
		(void)fclose(f);
}

static void finish(struct round *r)
{
	uint64_t end = now_ms() + END_MS;

	r->board->finish = 1;
	for (uint32_t s = r->first_slot; s < r->end_slot; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++)
			r->journal[s][i]->finish = now_ms();
	while (reap(r) && now_ms() < end && !interrupted)
		turn(r);
	for (uint32_t s = r->first_slot; s < r->end_slot; s++) {
		if (!r->process[s].pid)
			continue;
		if (!interrupted) {
			round_violation(r, "process %u does not end", s);
			round_blame(r, journal_of(r, s));
		}
		print_stack(r->process[s].pid);
		(void)kill(r->process[s].pid, SIGTERM);
		(void)poll(NULL, 0, 1000);
		(void)kill(r->process[s].pid, SIGKILL);
		(void)waitpid(r->process[s].pid, NULL, 0);
		journal_of(r, s)->killed = 1;
		r->process[s].pid = 0;
	}
}

void round_work(struct round *r)
{
	load(r);
	finish(r);
}
