/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A board of notes. 'dc ADDR' keeps one. 'dc ADDR PEER PORT...' writes a note
 * to the board at each port of PEER. ADDR is an address of this host. More than
 * two boards are reached without connections if both devices have DC. With -c
 * as the first argument there are always connections, two at a time. Targets
 * only receive, so each side has a target and a sender: a message asks for a
 * place on the board, the answer has the key of the board, and a one-sided
 * write puts the note there.
 */
#include "usage.h"

#include <stdint.h>

#include <rdmamsg/dc.h>
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

static char board[PLACES][64];
static struct rdmamsg_region *region;
static struct rdmamsg_dc_target *target;
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *boards[BOARDS];
static int written, failed;
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
		written++;
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
	printf("%.64s\n", board[value % PLACES]);
	fflush(stdout);
}

static int keep(struct rdmamsg *ctx, const char *addr)
{
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .access_key = ACCESS_KEY,
		.on_message = on_question, .on_written = on_written,
		.path = path,
	};

	if (rdmamsg_region_create(ctx, board, sizeof(board),
				  RDMAMSG_ACCESS_WRITE, &region))
		return fail("region");
	if (open_both(ctx, addr, &opts))
		return 1;
	printf("listening on port %u\n", rdmamsg_dc_target_port(target));
	fflush(stdout);
	rdmamsg_run(ctx);
	return 0;
}

/* ---- the writer --------------------------------------------------------- */

static void write_note(uint32_t number, const struct answer *answer)
{
	char note[sizeof(board[0])] = "";
	const struct rdmamsg_sge sge = { note, sizeof(note), NULL };

	snprintf(note, sizeof(note), "note %u", number);
	if (rdmamsg_dc_write_imm(boards[number], &sge, 1, &answer->key,
				 answer->place * sizeof(note), answer->place, 0,
				 boards[number])) {
		(void)fail("write");
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
	if (rdmamsg_dc_address_create(sender, peer, port, ACCESS_KEY, NULL,
				      &boards[number]) ||
	    rdmamsg_dc_send(boards[number], q, sizeof(*q), (uint32_t)number,
			    NULL))
		return fail(port);
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

	if (open_both(ctx, addr, &opts))
		return 1;
	snprintf(q.host, sizeof(q.host), "%s", addr);
	snprintf(q.port, sizeof(q.port), "%u", rdmamsg_dc_target_port(target));
	for (int i = 0; i < count; i++)
		if (ask(i, peer, ports[i], &q))
			return 1;
	while (written < count && !failed)
		if (rdmamsg_wait(ctx, TIMEOUT_MS) <= 0)
			return fail("no answer");
	if (failed || rdmamsg_dc_sender_query(sender, &a))
		return 1;
	printf("%d notes, %llu connections begun, %u sessions\n", written,
	       (unsigned long long)a.connects, a.sessions);
	return 0;
}

int main(int argc, char **argv)
{
	struct rdmamsg *ctx;
	int ret;

	if (argc > 1 && !strcmp(argv[1], "-c")) {
		path = RDMAMSG_DC_CONNECTIONS;
		argc--;
		argv++;
	}
	usage(argc, argv, "dc [-c] ADDR [PEER PORT...]", 1, 2 + BOARDS);
	if (argc == 3)
		errx(2, "Usage: dc [-c] ADDR [PEER PORT...]");
	if (rdmamsg_open(&ctx, NULL))
		return fail("open");
	ret = argc > 3 ? write_all(ctx, argv[1], argv[2], argv + 3, argc - 3) :
	      keep(ctx, argv[1]);
	rdmamsg_close(ctx);
	return ret;
}
