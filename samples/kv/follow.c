/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-cli follow: a copy of the table that follows the changes, whenever it
 * begins. It joins the group first, so that no later change is missed, and
 * keeps what arrives. Then it reads the number of the last change, and all
 * slots, one-sided. The slots have at least the changes up to that number. From
 * there the changes that were kept, and those that follow, bring the copy on.
 * If one is missing, it reads the table again.
 *
 * Some slots may be newer than the number was. A second number, read behind the
 * slots, tells from which change on the copy is the table as it once was.
 */
#include "client.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/group.h>

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "follow.h"
#include "store.h"

#define KEPT_MAX	65536	/* changes, while the table is read */

/* A change that has come and is not made yet. */
struct kept {
	struct kept *next;
	size_t len;
	char bytes[];
};

struct follower {
	struct kv kv;
	struct rdmamsg_group *group;
	struct store *store;
	uint64_t seq;		/* of the last change that was made here */
	uint64_t whole_at;	/* below this change the copy is not whole */
	bool lacking;		/* the table has to be read */
	struct kept *first, **last;
	unsigned int nr_kept;
};

/* ---- what the group brings -------------------------------------------- */

static void drop_kept(struct follower *f)
{
	struct kept *k;

	while ((k = f->first)) {
		f->first = k->next;
		free(k);
	}
	f->last = &f->first;
	f->nr_kept = 0;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	struct follower *f = rdmamsg_group_user(group);
	struct kept *k;

	if (f->nr_kept == KEPT_MAX)
		return;		/* then one is missing, and is noticed */
	k = malloc(sizeof(*k) + msg->len);
	if (!k)
		return;
	k->next = NULL;
	k->len = msg->len;
	memcpy(k->bytes, msg->data, msg->len);
	*f->last = k;
	f->last = &k->next;
	f->nr_kept++;
}

/* Once more after each on_lost. What is published from now on arrives. */
static void on_joined(struct rdmamsg_group *group)
{
	((struct follower *)rdmamsg_group_user(group))->lacking = true;
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	(void)sender, (void)first, (void)last;
	on_joined(group);
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	(void)group;
	if (why->error)
		errx(1, "%s", why->text);
}

/* On the device that reaches the server. */
static void join(struct follower *f)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined, .on_gap = on_gap,
		.on_message = on_message, .on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = f, .handlers = &on,
		.device = rdmamsg_ep_device_name(f->kv.ep),
		.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR,
	};

	if (!f->kv.hello.group[0])
		errx(1, "the server does not publish: start it with a GROUP, "
		     "on a device with multicast");
	if (rdmamsg_group_join(f->kv.ctx, f->kv.hello.group, &opts, &f->group))
		errx(1, "%s", rdmamsg_error());
}

/* ---- the copy --------------------------------------------------------- */

static void show(const struct kv_item *item, uint64_t seq)
{
	if (item->head.kind == KV_PUT)
		printf("%llu: %.*s is %.*s\n", (unsigned long long)seq,
		       item->head.key_len, item->key,
		       (int)item->head.value_len, (const char *)item->value);
	else
		printf("%llu: %.*s is deleted\n", (unsigned long long)seq,
		       item->head.key_len, item->key);
}

static void make(struct follower *f, const struct kv_item *item)
{
	const uint64_t seq = item->head.number;

	if (item->head.kind == KV_PUT)
		store_put(f->store, item, seq);
	else
		store_delete(f->store, item, seq);
	f->seq = seq;
	show(item, seq);
	if (seq == f->whole_at)
		printf("the copy is whole at %llu\n", (unsigned long long)seq);
}

/* The number after a sequence item is that of a change which did not come. */
static void take(struct follower *f, const struct kept *k)
{
	struct kv_item item;
	uint64_t number;

	if (kv_parse(k->bytes, k->len, &item) != (long)k->len)
		return;		/* not of kv-server */
	number = item.head.number;
	if (number <= f->seq)
		return;		/* the table had it */
	if (number == f->seq + 1 && (item.head.kind == KV_PUT ||
				     item.head.kind == KV_DELETE))
		make(f, &item);
	else
		f->lacking = true;
}

static void take_kept(struct follower *f)
{
	struct kept *k;

	while (!f->lacking && (k = f->first)) {
		f->first = k->next;
		if (!f->first)
			f->last = &f->first;
		f->nr_kept--;
		take(f, k);
		free(k);
	}
}

/* ---- the table -------------------------------------------------------- */

/* A value that is not inline comes by message, unless it is deleted by now. */
static int copy_slot(struct follower *f, const struct kv_slot *from)
{
	const struct kv_slot slot = *from;	/* a request uses the memory */
	char key[KV_KEY_MAX + 1] = "";
	struct kv_item item = {
		.head = { .kind = KV_OK }, .value = slot.value,
	};
	int err = 0;

	if (!slot.version || slot.value_len == KV_GONE)
		return 0;
	memcpy(key, slot.key, slot.key_len);
	item.head.value_len = slot.value_len;
	if (slot.value_len > KV_INLINE_MAX)
		err = kv_ask(&f->kv, KV_GET, key, NULL, 0, 0, &item);
	if (err || item.head.kind != KV_OK)
		return err;
	item.key = slot.key;
	item.head.key_len = (uint16_t)slot.key_len;
	store_put(f->store, &item, slot.seq);
	return 0;
}

static int copy_slots(struct follower *f)
{
	int err = 0;

	for (uint32_t at = 0; !err && at < KV_SLOTS; at += KV_BATCH) {
		err = kv_read_slots(&f->kv, at, KV_BATCH);
		for (uint32_t i = 0; !err && i < KV_BATCH; i++)
			err = copy_slot(f, &f->kv.landing->slots[i]);
	}
	return err;
}

static void begin_again(struct follower *f)
{
	if (f->store)
		store_destroy(f->store);
	f->store = store_create();
	if (!f->store)
		errx(1, "no memory for the copy");
}

/* -EAGAIN: a slot changed all the time. 'lacking' stays true. */
static int read_table(struct follower *f)
{
	uint64_t first, last;
	int err;

	begin_again(f);
	f->lacking = false;
	err = kv_read_sequence(&f->kv, &first);
	if (!err)
		err = copy_slots(f);
	if (!err)
		err = kv_read_sequence(&f->kv, &last);
	if (err) {
		f->lacking = true;
		return err;
	}
	f->seq = first;
	f->whole_at = last;
	printf("the table has %llu changes, %u messages have come\n",
	       (unsigned long long)first, f->nr_kept);
	if (first == last)
		printf("the copy is whole at %llu\n", (unsigned long long)last);
	return 0;
}

static void list(const struct store *s)
{
	for (uint32_t i = 0; i < KV_SLOTS; i++) {
		const struct kv_slot *slot = &s->table.slots[i];

		if (slot->version && slot->value_len != KV_GONE)
			printf("%.*s: %.*s\n", (int)slot->key_len, slot->key,
			       (int)slot->value_len,
			       (const char *)store_value(s, slot));
	}
}

/* ---- the loop --------------------------------------------------------- */

/* The next server has the table of the one that was killed, from its log. */
static void go_on(struct follower *f)
{
	fprintf(stderr, "kv-cli: %s; connecting again\n",
		rdmamsg_ep_reason(f->kv.ep)->text);
	kv_connect(&f->kv);
	f->lacking = true;
}

static void step(struct follower *f)
{
	int err = 0;

	if (rdmamsg_ep_state(f->kv.ep) != RDMAMSG_CONNECTED)
		go_on(f);
	if (f->lacking)
		err = read_table(f);
	else
		rdmamsg_wait(f->kv.ctx, -1);
	if (err && err != -EAGAIN)
		go_on(f);
	take_kept(f);
}

int follow(const char *host, const char *port, uint64_t until)
{
	static struct follower f;

	f.last = &f.first;
	begin_again(&f);
	kv_open(&f.kv, false, host, port);
	join(&f);
	while (!until || f.lacking || f.seq < until || f.seq < f.whole_at)
		step(&f);
	list(f.store);
	rdmamsg_shutdown_wait(f.kv.ctx, 5000);
	kv_close(&f.kv);
	drop_kept(&f);
	store_destroy(f.store);
	return 0;
}
