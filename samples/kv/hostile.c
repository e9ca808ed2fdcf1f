/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-hostile torn: shows that the check of a slot finds every mixture of an old
 * and a new one.
 * kv-hostile garbage HOST PORT TCP-PORT: sends what no client sends. The server
 * ends such a connection, or answers that the request is malformed.
 * kv-hostile crowd HOST PORT TCP-PORT: asks faster than it reads.
 */
#include "../usage.h"
#include "client.h"
#include "crowd.h"

#include <rdmamsg/endpoint.h>

#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORDS	(sizeof(struct kv_slot) / 8)

/* ---- torn ------------------------------------------------------------- */

union words {
	struct kv_slot slot;
	uint64_t word[WORDS];
	unsigned char byte[sizeof(struct kv_slot)];
};

static void fill(union words *w, uint64_t version, char with)
{
	struct kv_slot *s = &w->slot;

	memset(w, 0, sizeof(*w));
	s->version = s->seq = version;
	s->key_len = 3;
	memcpy(s->key, "key", 3);
	s->value_len = KV_INLINE_MAX;
	memset(s->value, with, sizeof(s->value));
	s->sum = kv_slot_sum(s);
}

static void check(const union words *mix, const union words *old,
		  const union words *new, unsigned long *torn)
{
	if (!memcmp(mix, old, sizeof(*mix)) || !memcmp(mix, new, sizeof(*mix)))
		return;
	if (kv_slot_whole(&mix->slot))
		errx(1, "a torn slot passes the check");
	++*torn;
}

/* The reader has the beginning of one and the rest of the other. */
static void cut_everywhere(const union words *old, const union words *new,
			   unsigned long *torn)
{
	union words mix;

	for (size_t at = 0; at <= sizeof(mix); at++) {
		memcpy(&mix, old, sizeof(mix));
		memcpy(&mix, new, at);
		check(&mix, old, new, torn);
	}
}

/* A device may read words in any order. */
static void mix_words(const union words *old, const union words *new,
		      unsigned long *torn)
{
	union words mix;

	for (int times = 0; times < 100000; times++) {
		for (size_t i = 0; i < WORDS; i++)
			mix.word[i] = rand() & 64 ? old->word[i] : new->word[i];
		check(&mix, old, new, torn);
	}
}

static int torn(void)
{
	union words old, new;
	unsigned long found = 0;

	fill(&old, 7, 'a');
	fill(&new, 8, 'b');
	if (!kv_slot_whole(&old.slot) || !kv_slot_whole(&new.slot))
		errx(1, "a whole slot does not pass the check");
	cut_everywhere(&old, &new, &found);
	cut_everywhere(&new, &old, &found);
	mix_words(&old, &new, &found);
	/* the same value again: only the version tells */
	fill(&new, 8, 'a');
	cut_everywhere(&old, &new, &found);
	printf("%lu torn slots found\n", found);
	return 0;
}

/* ---- garbage ---------------------------------------------------------- */

#define PIECES	200
#define WAIT_MS	60000

static char bytes[2 * KV_ITEM_MAX];

/* Each piece is another offence. Returns its length. */
static size_t garbage(int i, bool *answered)
{
	struct kv_head head = {
		.magic = KV_MAGIC, .kind = KV_PUT, .key_len = 1,
	};
	size_t len = 1 + (size_t)rand() % 4096;

	*answered = false;
	for (size_t at = 0; at < len + sizeof(head); at++)
		bytes[at] = (char)rand();
	switch (i % 5) {
	case 0:
		return len;	/* noise */
	case 1:
		head.value_len = KV_VALUE_MAX + 1 + (uint32_t)rand();
		break;
	case 2:
		head.key_len = (uint16_t)(KV_KEY_MAX + 1 + rand() % 60000);
		break;
	case 3:		/* as a request it is whole, and means nothing */
		head.kind = (uint16_t)(KV_SAVED + rand() % 1000);
		*answered = true;
		len = 1;
		break;
	case 4:		/* no key */
		head.key_len = 0;
		*answered = true;
		len = 0;
	}
	memcpy(bytes, &head, sizeof(head));
	return sizeof(head) + len;
}

static int dial(const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	int fd;

	if (getaddrinfo(host, port, &hints, &ai))
		errx(1, "no address: %s", host);
	fd = socket(ai->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, ai->ai_addr, ai->ai_addrlen))
		err(1, "TCP port %s", port);
	freeaddrinfo(ai);
	return fd;
}

/* The only answer that garbage may have. */
static void check_answer(const void *answer, size_t len)
{
	struct kv_item item;

	if (kv_parse(answer, len, &item) <= 0 ||
	    item.head.kind != KV_MALFORMED)
		errx(1, "the server has answered garbage");
}

static void garbage_by_tcp(const char *host, const char *port)
{
	for (int i = 0; i < PIECES; i++) {
		int fd = dial(host, port);
		char back[4096];
		bool answered;
		size_t len = garbage(i, &answered);
		ssize_t n;

		if (send(fd, bytes, len, MSG_NOSIGNAL) < 0)
			err(1, "TCP");
		shutdown(fd, SHUT_WR);
		n = recv(fd, back, sizeof(back), 0);
		if (answered && n <= 0)
			errx(1, "no answer to offence %d", i);
		if (n > 0)
			check_answer(back, (size_t)n);
		close(fd);
	}
}

/* The server must not keep requests without end, whose answers nobody reads. */
static void flood(const char *host, const char *port)
{
	const struct kv_head head = {
		.magic = KV_MAGIC, .kind = KV_GET, .key_len = 5,
	};
	const int fd = dial(host, port);
	size_t sent = 0;
	ssize_t n;

	for (size_t at = 0; at + sizeof(head) + 5 <= sizeof(bytes);
	     at += sizeof(head) + 5) {
		memcpy(bytes + at, &head, sizeof(head));
		memcpy(bytes + at + sizeof(head), "flood", 5);
		sent = at + sizeof(head) + 5;
	}
	for (int i = 0; i < 1000; i++) {
		n = send(fd, bytes, sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n != (ssize_t)sent)
			break;
	}
	close(fd);
}

/* One connection for each offence that ends it. */
static struct rdmamsg_ep *meet(struct rdmamsg *ctx, const char *host,
			       const char *port)
{
	struct rdmamsg_ep *ep;

	if (rdmamsg_connect_wait(ctx, host, port, NULL, WAIT_MS, &ep))
		errx(1, "%s", rdmamsg_error());
	return ep;
}

static void garbage_by_message(struct rdmamsg *ctx, const char *host,
			       const char *port, int i)
{
	struct rdmamsg_ep *ep = meet(ctx, host, port);
	struct rdmamsg_msg *msg;
	bool answered;
	size_t len = garbage(i, &answered);
	int ret;

	if (rdmamsg_send(ep, bytes, len, 0, NULL))
		errx(1, "%s", rdmamsg_error());
	ret = rdmamsg_recv_wait(ep, WAIT_MS, &msg);
	if (!ret) {
		check_answer(rdmamsg_msg_data(msg),
			     rdmamsg_msg_len(msg));
		rdmamsg_msg_free(msg);
	} else if (answered || ret == -ETIMEDOUT) {
		errx(1, "offence %d: %s", i, rdmamsg_error());
	} else if (rdmamsg_ep_reason(ep)->code != KV_MALFORMED) {
		errx(1, "offence %d: another end: %s", i,
		     rdmamsg_ep_reason(ep)->text);
	}
	rdmamsg_ep_close_wait(ep, WAIT_MS);
}

static int offend(char **argv)
{
	struct rdmamsg *ctx;

	garbage_by_tcp(argv[2], argv[4]);
	flood(argv[2], argv[4]);
	if (rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	for (int i = 0; i < PIECES; i++)
		garbage_by_message(ctx, argv[2], argv[3], i);
	rdmamsg_close(ctx);
	printf("%d offences each way\n", PIECES);
	return 0;
}

int main(int argc, char **argv)
{
	usage(argc, argv, "kv-hostile torn | "
	      "kv-hostile garbage|crowd HOST PORT TCP-PORT", 1, 4);
	if (argc == 2 && !strcmp(argv[1], "torn"))
		return torn();
	if (argc == 5 && !strcmp(argv[1], "garbage"))
		return offend(argv);
	if (argc == 5 && !strcmp(argv[1], "crowd"))
		return crowd(argv[2], argv[3], argv[4]);
	errx(2, "'%s' with these operands is nothing; see --help", argv[1]);
}
