/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of large messages. Freed memory serves later messages of its size. */
#include "base/base.h"
#include "base/list.h"
#include "base/page.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "memory/pool.h"
#include "memory/source.h"
#include "memory/stretch.h"
#include "memory/large.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define LARGE_MIN	((size_t)64 << 10)
#define LARGE_CLASS	((size_t)64 << 20)	/* above: no classes */
#define SPARES_SEEN	16u

/* ---- registering in steps --------------------------------------------- */

static size_t step_begin(uint32_t step)
{
	return step ? SINK_STEP << (step - 1) : 0;
}

static uint32_t step_of(size_t offset)
{
	uint32_t step = 0;

	while (offset >= SINK_STEP << step)
		step++;
	return step;
}

static size_t step_end(const struct sink *s, uint32_t step)
{
	return min(SINK_STEP << step, s->size);
}

static int step_reg(struct sink *s, struct dev *dev)
{
	size_t begin = step_begin(s->count);
	int ret = rdmamsg__v_reg_mr(dev->device->v, dev->pd, s->mem + begin,
				    step_end(s, s->count) - begin,
				    rdmamsg__sink_access(dev->device),
				    &s->mr[s->count]);

	if (ret)
		return rdmamsg__fail_verbs(ret, "registering a large message");
	s->count++;
	return 0;
}

int rdmamsg__sink_ready(struct sink *s, struct dev *dev, size_t offset,
			size_t arrived, uint32_t *ret_lkey, size_t *ret_end)
{
	uint32_t step = step_of(offset);

	_Static_assert(SINK_STEP << (SINK_STEPS - 1) > RDMAMSG_MSG_MAX,
		       "steps for the largest message");
	while (s->count <= step) {
		int err;

		if (arrived < step_begin(s->count) / 2)
			return -EAGAIN;
		err = step_reg(s, dev);
		if (err)
			return err;
	}
	*ret_lkey = s->mr[step]->lkey;
	*ret_end = step_end(s, step);
	return 0;
}

void rdmamsg__sink_dereg(struct sink *s, struct dev *dev)
{
	while (s->count)
		if (rdmamsg__v_dereg_mr(dev->device->v, s->mr[--s->count]))
			log_error("device %s: a large message could not be "
				  "deregistered", dev->device->name);
}

/* ---- memory ----------------------------------------------------------- */

/*
 * Rounds up to a power of two, so that freed memory fits later messages. Above
 * LARGE_CLASS, rounds up to whole pages.
 */
static size_t class_of(size_t size)
{
	size_t s = LARGE_MIN;

	while (s < size && s < LARGE_CLASS)
		s *= 2;
	return s >= size ? s : whole_pages(size);
}

void rdmamsg__large_free(struct large *l)
{
	rdmamsg__sink_dereg(&l->sink, l->stretch.dev);
	rdmamsg__source_dereg(l);
	list_del(&l->node);
	if (rdmamsg__stretch_unmap(&l->stretch))
		free(l);
}

static void large_drop(struct stretch *s)
{
	rdmamsg__large_free((struct large *)s);
}

/* Returns a spare, among the first ones a source of this reader if possible. */
static struct large *find_spare(struct dev *dev, enum direction dir,
				size_t size, uint64_t reader)
{
	struct large *found = NULL;
	uint32_t seen = 0;
	struct list *n;

	list_for_each(n, &dev->large) {
		struct large *l = list_entry(n, struct large, node);

		if (l->stretch.size == size && l->stretch.dir == dir) {
			if (!reader || l->source.reader == reader)
				return l;
			found = found ? found : l;
		}
		if (found && ++seen == SPARES_SEEN)
			break;
	}
	return found;
}

static int large_new(struct dev *dev, enum direction dir, size_t size,
		     struct large **ret)
{
	struct large *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for a message");
	list_init(&l->node);
	l->stretch = (struct stretch){
		.dev = dev, .dir = dir, .size = size, .drop = large_drop,
	};
	/* a sink is registered in steps, a source when it is sent */
	err = rdmamsg__stretch_map(&l->stretch, false);
	if (err) {
		free(l);
		return err;
	}
	l->sink.mem = l->stretch.mem;
	l->sink.size = size;
	*ret = l;
	return 0;
}

int rdmamsg__large_get(struct dev *dev, enum direction dir, size_t size,
		       uint64_t reader, struct large **ret)
{
	size_t exact = whole_pages(size), class = class_of(size);
	struct large *l = find_spare(dev, dir, class, reader);
	int err;

	if (l) {
		list_del(&l->node);
		rdmamsg__stretch_use(&l->stretch);
		/* before the program writes to it */
		if (l->source.reader != reader)
			rdmamsg__source_dereg(l);
		*ret = l;
		return 0;
	}
	err = rdmamsg__try(large_new(dev, dir, class, ret));
	/* the budget may have room for the message but not for its class */
	if (err == -ENOBUFS && exact < class)
		err = rdmamsg__try(large_new(dev, dir, exact, ret));
	return rdmamsg__fail_again(err);
}

void rdmamsg__large_put(struct large *l)
{
	struct dev *dev = l->stretch.dev;

	if (!dev->device) {
		rdmamsg__large_free(l);
		return;
	}
	/* first: the next message takes the memory used last */
	list_add(&dev->large, &l->node);
	rdmamsg__stretch_spare(&l->stretch);
}

/* ---- messages --------------------------------------------------------- */

struct large *rdmamsg__msg_source(struct rdmamsg_msg *msg)
{
	/* several peers may read a shared message */
	struct large *l = msg->kind == MSG_LARGE && msg->lent != MSG_SHARED ?
			  ((struct loose_msg *)msg)->large : NULL;

	return l && l->stretch.dir == DIR_OUT &&
	       !rdmamsg__quirks(msg->dev->device)->plain_addresses ? l : NULL;
}

int rdmamsg__msg_large(struct dev *dev, enum direction dir, size_t len,
		       uint64_t reader, struct rdmamsg_msg **ret)
{
	struct loose_msg *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for a message");
	err = rdmamsg__large_get(dev, dir, len, reader, &l->large);
	if (err) {
		free(l);
		return err;
	}
	l->msg.kind = MSG_LARGE;
	l->msg.dev = dev;
	l->msg.data = l->large->stretch.mem;
	l->msg.room = (uint32_t)min(l->large->stretch.size,
				    (size_t)PROTO_MSG_MAX);
	l->msg.len = (uint32_t)len;
	list_add_tail(&dev->loose, &l->node);
	*ret = &l->msg;
	return 0;
}

/* A message in memory of the program: the library allocates no buffer. */
int rdmamsg__msg_user(struct dev *dev, void *data, struct rdmamsg_msg **ret)
{
	struct loose_msg *l = calloc(1, sizeof(*l));

	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for a message");
	l->msg.kind = MSG_USER;
	l->msg.dev = dev;
	l->msg.data = data;
	list_add_tail(&dev->loose, &l->node);
	*ret = &l->msg;
	return 0;
}
