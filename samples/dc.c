/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A board of notes. 'dc ADDR' keeps one. 'dc ADDR PEER PORT...' writes a note
 * to the board at each port of PEER. ADDR is an address of this host. More than
 * two boards are reached without connections if both devices have DC. With -c
 * as the first argument there are always connections, two at a time. Targets
 * only receive, so each side has a target and a sender: a message asks for a
 * place on the board, the answer has the key of the board, and a one-sided
 * write puts the note there. A read brings the note back, and an atomic addition
 * counts it. With -w as the first argument the writer has a wrong access key. The
 * board is armed: it tells of the next use of a wrong key.
 */
#include "usage.h"

#include <inttypes.h>
#include <stdint.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define ACCESS_KEY	0x5eed
#define TIMEOUT_MS	10000
#define PLACES		256u
#define BOARDS		64

/* The tag of both messages is the number of the board, for the asker. */
struct question {
	char host[64], port[8];		/* where the answer goes */
};

struct answer {
	struct rdmamsg_key key;
	uint8_t place;
};

static struct {
	uint64_t count;			/* notes so far */
	char note[PLACES][64];
} board;
/* of the writer: the notes that it reads, and the count before each */
static char read_back[BOARDS][64];
static uint64_t before[BOARDS];
static uint64_t access_key = ACCESS_KEY;
static struct rdmamsg_region *region;
static struct rdmamsg_dc_target *target;
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *boards[BOARDS];
static int done, failed;	/* operations */
static uint32_t path = RDMAMSG_DC_AUTO;

static int fail(const char *what)
{
	fprintf(stderr, "dc: %s: %s\n", what, rdmamsg_error());
	return 1;
}

/* ---- both sides --------------------------------------------------------- */

static void on_complete(struct rdmamsg_dc_sender *s,
			struct rdmamsg_dc_address *a, void *cookie, int status)
{
	if (status)
		failed++;
	else
		done++;
}

static void on_failed(struct rdmamsg_dc_sender *s, struct rdmamsg_dc_address *a,
		      const struct rdmamsg_reason *why)
{
	fprintf(stderr, "dc: %s\n", why->text);
	failed++;
}

static int open_both(struct rdmamsg *ctx, const char *addr,
		     const struct rdmamsg_dc_target_options *opts)
{
	const struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .on_complete = on_complete,
		.on_failed = on_failed, .initiators = 2, .path = path,
	};

	if (rdmamsg_dc_target_create(ctx, addr, "0", opts, &target))
		return fail("target");
	return rdmamsg_dc_sender_create(ctx, &so, &sender) ? fail("sender") : 0;
}

/* ---- the board ---------------------------------------------------------- */

static void on_question(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
			uint64_t from)
{
	static uint8_t place;
	struct rdmamsg_dc_address *a;
	struct question q;
	struct answer answer = { .place = place };

	if (rdmamsg_msg_len(msg) == sizeof(q)) {
		memcpy(&q, rdmamsg_msg_data(msg), sizeof(q));
		q.host[sizeof(q.host) - 1] = q.port[sizeof(q.port) - 1] = 0;
		if (rdmamsg_dc_target_get_key(t, region, &answer.key) ||
		    rdmamsg_dc_address_create(sender, q.host, q.port,
					      ACCESS_KEY, NULL, &a)) {
			(void)fail("answer");
		} else {
			place++;
			if (rdmamsg_dc_send(a, &answer, sizeof(answer),
					    rdmamsg_msg_tag(msg), NULL))
				(void)fail("answer");
			/* when the answer has gone */
			rdmamsg_dc_address_destroy(a);
		}
	}
	rdmamsg_msg_free(msg);
}

static void on_written(struct rdmamsg_dc_target *t, uint32_t value,
		       uint64_t from)
{
	printf("%.64s\n", board.note[value % PLACES]);
	fflush(stdout);
}

/* Each call of on_violation needs to be armed again. */
static void arm(struct rdmamsg_dc_target *t)
{
	if (rdmamsg_dc_target_arm(t))
		printf("not armed: %s\n", rdmamsg_error());
	fflush(stdout);
}

static void on_violation(struct rdmamsg_dc_target *t,
			 const struct sockaddr_storage *from)
{
	struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };

	if (!rdmamsg_dc_target_query(t, &a))
		printf("a wrong access key, %" PRIu64 " so far\n",
		       a.key_violations);
	arm(t);
}

static int keep(struct rdmamsg *ctx, const char *addr)
{
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .access_key = ACCESS_KEY,
		.on_message = on_question, .on_written = on_written,
		.on_violation = on_violation, .path = path,
	};

	if (rdmamsg_region_create(ctx, &board, sizeof(board),
				  RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_READ |
				  RDMAMSG_ACCESS_ATOMIC, &region))
		return fail("region");
	if (open_both(ctx, addr, &opts))
		return 1;
	arm(target);
	printf("listening on port %u\n", rdmamsg_dc_target_port(target));
	fflush(stdout);
	rdmamsg_run(ctx);
	return 0;
}

/* ---- the writer --------------------------------------------------------- */

static void text_of(uint32_t number, char note[static 64])
{
	memset(note, 0, 64);
	snprintf(note, 64, "note %u", number);
}

/* Writes the note, reads it, and counts it, one after the other. */
static void write_note(uint32_t number, const struct answer *answer)
{
	struct rdmamsg_dc_address *a = boards[number];
	const struct rdmamsg_key *key = &answer->key;
	const uint64_t at = offsetof(__typeof__(board), note) +
			    answer->place * sizeof(board.note[0]);
	char note[64];
	const struct rdmamsg_sge from = { note, sizeof(note), NULL };
	const struct rdmamsg_sge to = {
		read_back[number], sizeof(read_back[0]), region,
	};

	const uint64_t one = 1;
	const struct rdmamsg_op ops[] = { {
		.size = sizeof(ops[0]), .kind = RDMAMSG_OP_WRITE,
		.flags = RDMAMSG_OP_NOTIFY, .imm = answer->place,
		.sge = &from, .count = 1, .key = key, .offset = at,
		.cookie = a,
	}, {
		.size = sizeof(ops[0]), .kind = RDMAMSG_OP_READ,
		.sge = &to, .count = 1, .key = key, .offset = at,
		.cookie = a,
	}, {
		.size = sizeof(ops[0]), .kind = RDMAMSG_OP_FETCH_ADD,
		.key = key, .operand = &one, .result = &before[number],
		.cookie = a,
	} };

	text_of(number, note);
	if (rdmamsg_dc_post(a, &ops[0]) || rdmamsg_dc_post(a, &ops[1]) ||
	    rdmamsg_dc_post(a, &ops[2])) {
		(void)fail("note");
		failed++;
	}
}

static void on_answer(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		      uint64_t from)
{
	const uint32_t number = rdmamsg_msg_tag(msg);
	struct answer answer;

	if (rdmamsg_msg_len(msg) == sizeof(answer) && number < BOARDS &&
	    boards[number]) {
		memcpy(&answer, rdmamsg_msg_data(msg), sizeof(answer));
		write_note(number, &answer);
	}
	rdmamsg_msg_free(msg);
}

static int ask(int number, const char *peer, const char *port,
	       const struct question *q)
{
	if (rdmamsg_dc_address_create(sender, peer, port, access_key, NULL,
				      &boards[number]) ||
	    rdmamsg_dc_send(boards[number], q, sizeof(*q), (uint32_t)number,
			    NULL))
		return fail(port);
	return 0;
}

static int check_notes(int count)
{
	uint64_t most = 0;

	for (int i = 0; i < count; i++) {
		char note[64];

		text_of((uint32_t)i, note);
		if (memcmp(note, read_back[i], sizeof(note))) {
			fprintf(stderr, "dc: note %d is not on the board\n", i);
			return 1;
		}
		most = before[i] > most ? before[i] : most;
	}
	printf("%d read back, at most %" PRIu64 " before them\n", count, most);
	return 0;
}

static int write_all(struct rdmamsg *ctx, const char *addr, const char *peer,
		     char **ports, int count)
{
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .access_key = ACCESS_KEY,
		.on_message = on_answer, .path = path,
	};
	struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };
	struct question q = { "", "" };

	if (rdmamsg_region_create(ctx, read_back, sizeof(read_back),
				  RDMAMSG_ACCESS_LOCAL_WRITE, &region))
		return fail("region");
	if (open_both(ctx, addr, &opts))
		return 1;
	snprintf(q.host, sizeof(q.host), "%s", addr);
	snprintf(q.port, sizeof(q.port), "%u", rdmamsg_dc_target_port(target));
	for (int i = 0; i < count; i++)
		if (ask(i, peer, ports[i], &q))
			return 1;
	while (done < 3 * count && !failed)
		if (rdmamsg_wait(ctx, TIMEOUT_MS) <= 0)
			return fail("no answer");
	if (failed || rdmamsg_dc_sender_query(sender, &a))
		return 1;
	printf("%d notes, %llu connections begun, %u sessions\n", count,
	       (unsigned long long)a.connects, a.sessions);
	return check_notes(count);
}

int main(int argc, char **argv)
{
	struct rdmamsg *ctx;
	int ret;

	for (; argc > 1 && (!strcmp(argv[1], "-c") || !strcmp(argv[1], "-w"));
	     argc--, argv++)
		if (argv[1][1] == 'c')
			path = RDMAMSG_DC_CONNECTIONS;
		else
			access_key = ACCESS_KEY + 1;
	usage(argc, argv, "dc [-c] [-w] ADDR [PEER PORT...]", 1, 2 + BOARDS);
	if (argc == 3)
		errx(2, "Usage: dc [-c] [-w] ADDR [PEER PORT...]");
	if (rdmamsg_open(&ctx, NULL))
		return fail("open");
	ret = argc > 3 ? write_all(ctx, argv[1], argv[2], argv + 3, argc - 3) :
	      keep(ctx, argv[1]);
	rdmamsg_close(ctx);
	return ret;
}
