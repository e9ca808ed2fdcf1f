/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, rounds and the totals. */
#include "chaos.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_SIZE	(4u << 20)
#define LOAD_MS		2000	/* shortest load of a round, half the longest */
#define EACH_S		86400	/* no limit: the count of rounds is one */
#define END_LINES	40	/* of the log of a process that has failed */
#define END_BYTES	16384
#define END_PROCESSES	2

volatile int interrupted;

static struct {
	uint64_t seed;
	uint32_t seconds, rounds, max_size, load_ms;
	int scenario;			/* -1: all in turn */
	const char *address, *own, *dir, *part;
	char *ports;
	bool keep, each;
} opt = {
	.seconds = 60, .max_size = MAX_SIZE, .scenario = -1,
};

static int usage(FILE *f)
{
	fputs("Usage: chaos [OPTION]... [SEED]\n"
	      "Processes exchange messages while processes, ports, devices and "
	      "calls fail.\nEvery rule of the library is checked.\n\n"
	      "  -s, --seconds=N     begin no round after so many; 60\n"
	      "  -r, --rounds=N      at most so many rounds\n"
	      "  -e, --each          one round of each scenario, however long "
	      "they take\n"
	      "  -S, --seed=N        of the first round, the next has N + 1\n"
	      "  -c, --scenario=NAME only this one\n"
	      "  -m, --max-size=N    bytes of a message; 4194304\n"
	      "  -t, --load-ms=N     of a round; 2000 to 4000\n"
	      "  -a, --address=A     of the servers; RDMAMSG_VM_ADDR, or "
	      "127.0.0.1\n"
	      "  -o, --own=A         of this host; that of the servers\n"
	      "  -d, --dir=DIR       for logs; one in TMPDIR\n"
	      "  -k, --keep          logs of good rounds, too\n"
	      "  -p, --part=PART     servers or clients, of one round on two "
	      "hosts\n"
	      "  -P, --ports=LIST    of the servers, for the clients\n"
	      "  -j, --judge DIR...  the logs that both have left\n"
	      "  -l, --list          names of the scenarios\n"
	      "  -h, --help          this\n", f);
	return f == stderr ? 2 : 0;
}

static int list(void)
{
	for (uint32_t i = 0; i < scenario_count; i++)
		printf("%-14s %s\n", scenarios[i].name, scenarios[i].what);
	return 0;
}

/* ---- a round ---------------------------------------------------------- */

static struct board *new_board(int *ret_fd)
{
	*ret_fd = share_new(sizeof(struct board));
	return *ret_fd < 0 ? NULL : share(*ret_fd, sizeof(struct board));
}

#define LOG_PATH(r)	(sizeof((r)->dir) + 64)

static void log_path(const struct round *r, uint32_t slot, uint32_t life,
		     char *ret, size_t size)
{
	snprintf(ret, size, "%s/process-%u-%u.log", r->dir, slot, life);
}

static void remove_logs(const struct round *r)
{
	char path[LOG_PATH(r)];

	for (uint32_t s = 0; s < SLOTS; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++) {
			log_path(r, s, i, path, sizeof(path));
			(void)unlink(path);
		}
	(void)rmdir(r->dir);
}

static void forget(struct round *r)
{
	for (uint32_t s = 0; s < SLOTS; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++)
			(void)munmap(r->journal[s][i], JOURNAL_SIZE);
	(void)munmap(r->board, sizeof(*r->board));
	close(r->board_fd);
}

/* Prints the last lines of a process's log. */
static void print_end(const struct round *r, uint32_t slot, uint32_t life)
{
	char path[LOG_PATH(r)], text[END_BYTES + 1];
	const char *from;
	size_t len = 0;
	int lines = 0;
	FILE *f;

	log_path(r, slot, life, path, sizeof(path));
	f = fopen(path, "r");
	if (!f)
		return;
	/* a short log has no such place, and is read from its beginning */
	(void)fseek(f, -END_BYTES, SEEK_END);
	len = fread(text, 1, END_BYTES, f);
	(void)fclose(f);
	text[len] = 0;
	for (from = text + len; from > text; from--)
		if (from[-1] == '\n' && lines++ == END_LINES)
			break;
	printf("# the end of the log of process %u-%u:\n", slot, life);
	while (*from) {
		int n = (int)strcspn(from, "\n");

		printf("#   %.*s\n", n, from);
		from += n + (from[n] == '\n');
	}
}

static void print_ends(const struct round *r)
{
	int printed = 0;

	for (uint32_t s = 0; s < SLOTS; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++)
			if (r->blamed[s] >> i & 1 &&
			    printed++ < END_PROCESSES)
				print_end(r, s, i);
}

static void report(const struct round *r, uint64_t took)
{
	if (!r->violations) {
		printf("ok %s %llu # %llu ms, %llu connections, %llu messages\n",
		       r->sc->name, (unsigned long long)r->board->seed,
		       (unsigned long long)took,
		       (unsigned long long)r->connections,
		       (unsigned long long)r->messages);
		return;
	}
	printf("not ok %s %llu: %s\n", r->sc->name,
	       (unsigned long long)r->board->seed, r->violation);
	printf("# again: chaos --scenario=%s --rounds=1 %llu; logs are in %s\n",
	       r->sc->name, (unsigned long long)r->board->seed, r->dir);
	print_ends(r);
}

static uint32_t scenario_of(uint64_t seed)
{
	return opt.scenario >= 0 ? (uint32_t)opt.scenario :
	       (uint32_t)(seed % scenario_count);
}

static bool beyond_link(uint64_t seed)
{
	const struct scenario *sc = &scenarios[scenario_of(seed)];

	if (!is_iwarp() || !sc->oob)
		return false;
	printf("skip %s # iWARP connects through the connection manager only\n",
	       sc->name);
	return true;
}

static bool prepare(struct round *r, uint64_t seed, struct totals *totals)
{
	memset(r, 0, sizeof(*r));
	r->board = new_board(&r->board_fd);
	if (!r->board) {
		perror("chaos");
		return false;
	}
	r->board->seed = seed;
	r->board->max_size = opt.max_size;
	r->board->scenario = scenario_of(seed);
	snprintf(r->board->address, sizeof(r->board->address), "%s",
		 opt.address);
	snprintf(r->board->own, sizeof(r->board->own), "%s", opt.own);
	r->sc = &scenarios[r->board->scenario];
	r->end_slot = r->sc->servers + r->sc->clients;
	r->rng.seed = mix(seed, 0x70617265);
	r->load_ms = opt.load_ms ? opt.load_ms :
		     LOAD_MS + rng_below(&r->rng, LOAD_MS);
	r->totals = totals;
	snprintf(r->dir, sizeof(r->dir), "%s/%s-%llu", opt.dir, r->sc->name,
		 (unsigned long long)seed);
	(void)mkdir(r->dir, 0755);
	return true;
}

static bool one_round(uint64_t seed, struct totals *totals)
{
	static struct round r;
	uint64_t began = now_ms();

	if (!prepare(&r, seed, totals))
		return false;
	for (uint32_t s = 0; s < r.end_slot; s++)
		process_start(&r, s);
	round_work(&r);
	if (!interrupted)
		judge(&r);
	totals->rounds++;
	report(&r, now_ms() - began);
	if (!r.violations && !opt.keep)
		remove_logs(&r);
	forget(&r);
	return !r.violations;
}

static void print_harms(const struct totals *t)
{
	static const char *const names[HARMS] = {
		"kills", "stops", "ports down", "ports silent",
		"devices removed", "changes of loss", "injected failures",
		"turns without descriptors",
	};

	for (int i = 0; i < HARMS; i++)
		printf("%s %llu %s", i ? "," : "#",
		       (unsigned long long)t->harms[i], names[i]);
	printf("\n");
}

static void print_totals(const struct totals *t)
{
	printf("# total: %llu rounds, %llu connections, %llu messages, %llu MB, "
	       "%llu one-sided operations\n",
	       (unsigned long long)t->rounds,
	       (unsigned long long)t->connections,
	       (unsigned long long)t->messages,
	       (unsigned long long)t->bytes >> 20,
	       (unsigned long long)t->rmas);
	printf("# timed out %llu, overdue %llu\n",
	       (unsigned long long)t->timed_out,
	       (unsigned long long)t->overdue);
	printf("# lost %llu, doubled %llu, violations %llu\n",
	       (unsigned long long)t->lost, (unsigned long long)t->doubled,
	       (unsigned long long)t->violations);
}

/* ---- main ------------------------------------------------------------- */

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static bool parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "each", no_argument, NULL, 'e' },
		{ "seed", required_argument, NULL, 'S' },
		{ "scenario", required_argument, NULL, 'c' },
		{ "max-size", required_argument, NULL, 'm' },
		{ "load-ms", required_argument, NULL, 't' },
		{ "address", required_argument, NULL, 'a' },
		{ "own", required_argument, NULL, 'o' },
		{ "dir", required_argument, NULL, 'd' },
		{ "keep", no_argument, NULL, 'k' },
		{ "part", required_argument, NULL, 'p' },
		{ "ports", required_argument, NULL, 'P' },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "s:r:eS:c:m:t:a:o:d:kp:P:lh",
				options, NULL)) != -1)
		switch (o) {
		case 's':
			opt.seconds = (uint32_t)atoi(optarg);
			break;
		case 'r':
			opt.rounds = (uint32_t)atoi(optarg);
			break;
		case 'e':
			opt.each = true;
			break;
		case 'S':
			opt.seed = strtoull(optarg, NULL, 10);
			break;
		case 'c':
			opt.scenario = scenario_find(optarg);
			if (opt.scenario < 0) {
				fprintf(stderr, "no scenario is called %s\n",
					optarg);
				return false;
			}
			break;
		case 'm':
			opt.max_size = (uint32_t)atoi(optarg);
			break;
		case 't':
			opt.load_ms = (uint32_t)atoi(optarg);
			break;
		case 'a':
			opt.address = optarg;
			break;
		case 'o':
			opt.own = optarg;
			break;
		case 'd':
			opt.dir = optarg;
			break;
		case 'k':
			opt.keep = true;
			break;
		case 'p':
			opt.part = optarg;
			break;
		case 'P':
			opt.ports = optarg;
			break;
		case 'l':
			exit(list());
		case 'h':
			exit(usage(stdout));
		default:
			return false;
		}
	if (optind < argc)
		opt.seed = strtoull(argv[optind++], NULL, 10);
	return optind == argc && opt.max_size > 256;
}

static void defaults(void)
{
	static char dir[256];
	const char *tmp = getenv("TMPDIR");

	if (!opt.seed)
		opt.seed = (uint64_t)time(NULL) << 16 | ((uint64_t)getpid() &
							 0xffff);
	if (opt.each) {
		opt.rounds = scenario_count;
		opt.seconds = EACH_S;
	}
	if (!opt.address)
		opt.address = getenv("RDMAMSG_VM_ADDR");
	if (!opt.address)
		opt.address = "127.0.0.1";
	if (!opt.own)
		opt.own = opt.address;
	if (opt.dir) {
		(void)mkdir(opt.dir, 0755);
		return;
	}
	snprintf(dir, sizeof(dir), "%s/chaos-XXXXXX", tmp ? tmp : "/tmp");
	opt.dir = mkdtemp(dir);
}

int main(int argc, char **argv)
{
	static struct round part;
	struct totals totals = { 0 };
	int status;
	uint64_t end;

	if (argc > 1 && !strcmp(argv[1], "--child"))
		return worker_main(argc - 2, argv + 2);
	if (argc > 2 && (!strcmp(argv[1], "--judge") ||
			 !strcmp(argv[1], "-j"))) {
		status = part_judge(&totals, argv + 2);
		print_totals(&totals);
		return status;
	}
	if (!parse(argc, argv))
		return usage(stderr);
	defaults();
	if (!opt.dir) {
		perror("chaos");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	printf("# seed %llu\n", (unsigned long long)opt.seed);
	if (opt.part) {
		if (!prepare(&part, opt.seed, &totals))
			return 2;
		status = part_run(&part, opt.part, opt.ports, opt.dir);
		print_harms(&totals);
		return status;
	}
	end = now_ms() + opt.seconds * 1000ull;
	for (uint64_t i = 0; !interrupted && now_ms() < end &&
	     (!opt.rounds || i < opt.rounds); i++)
		if (!beyond_link(opt.seed + i))
			(void)one_round(opt.seed + i, &totals);
	print_totals(&totals);
	print_harms(&totals);
	(void)rmdir(opt.dir);
	return totals.violations || !totals.rounds ? 1 : 0;
}
