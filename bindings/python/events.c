/* SPDX-License-Identifier: BSD-2-Clause */
/* See events.h. build_ffi.py compiles this file into the module. */

/* A message of up to so many bytes is copied, which costs less than lending. */
#define COPY_MAX	4096u

struct half {
	struct pyr_event *events;
	size_t count, room;
	char *arena;
	size_t bytes, size;
};

struct pyr_queue {
	struct half in;		/* callbacks append */
	struct half out;	/* Python reads */
	int closing;
	int lost;
};

static int grow(void *at, size_t *room, size_t wanted, size_t each)
{
	size_t more = *room ? *room : 64;
	void **array = at, *larger;

	while (more < wanted)
		more *= 2;
	if (more == *room)
		return 0;
	larger = realloc(*array, more * each);
	if (!larger)
		return -1;
	*array = larger;
	*room = more;
	return 0;
}

/* Returns a new event with room for len bytes at *bytes, NULL without memory. */
static struct pyr_event *push(struct pyr_queue *q, enum pyr_kind kind,
			      uint64_t id, size_t len, char **bytes)
{
	struct half *h = &q->in;
	struct pyr_event *e;

	if (grow(&h->events, &h->room, h->count + 1, sizeof(*e)) ||
	    grow(&h->arena, &h->size, h->bytes + len, 1)) {
		q->lost = 1;
		return NULL;
	}
	e = &h->events[h->count++];
	*e = (struct pyr_event){ .kind = kind, .id = id };
	if (bytes) {
		e->object = h->bytes;
		e->len = len;
		*bytes = h->arena + h->bytes;
		h->bytes += len;
	}
	return e;
}

static struct pyr_event *push_text(struct pyr_queue *q, enum pyr_kind kind,
				   uint64_t id, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	char *bytes;
	struct pyr_event *e = push(q, kind, id, len, &bytes);

	if (e && len)
		memcpy(bytes, text, len);
	return e;
}

struct pyr_queue *pyr_queue_new(void)
{
	return calloc(1, sizeof(struct pyr_queue));
}

static void half_free(struct half *h)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->events[i].kind == PYR_LENT)
			pyr_msg_free((void *)(uintptr_t)h->events[i].object);
	free(h->events);
	free(h->arena);
}

void pyr_queue_free(struct pyr_queue *q)
{
	if (!q)
		return;
	q->out.count = 0;	/* Python has them */
	half_free(&q->in);
	half_free(&q->out);
	free(q);
}

size_t pyr_take(struct pyr_queue *q, struct pyr_batch *batch)
{
	struct half taken = q->in;

	q->in = q->out;
	q->in.count = q->in.bytes = 0;
	q->out = taken;
	*batch = (struct pyr_batch){
		.events = taken.events, .count = taken.count,
		.arena = taken.arena, .bytes = taken.bytes, .lost = q->lost,
	};
	return taken.count;
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

int pyr_spin(struct rdmamsg *ctx, struct pyr_queue *q, uint32_t us)
{
	const uint64_t end = now_us() + us;
	int i, ret;

	do {
		for (i = 0; i < 64 && !q->in.count; i++) {
			ret = rdmamsg_poll(ctx);
			if (ret < 0)
				return ret;
		}
	} while (!q->in.count && now_us() < end);
	return 0;
}

void pyr_closing(struct pyr_queue *q)
{
	q->closing = 1;
}

void pyr_msg_free(void *msg)
{
	rdmamsg_msg_free(msg);
}

/* ---- endpoints -------------------------------------------------------- */

static struct pyr_queue *queue_of(const struct rdmamsg_ep *ep)
{
	return rdmamsg_user(rdmamsg_ep_ctx(ep));
}

static struct pyr_event *push_ep(struct rdmamsg_ep *ep, enum pyr_kind kind)
{
	return push(queue_of(ep), kind, (uintptr_t)rdmamsg_ep_user(ep), 0, NULL);
}

static int copy_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	size_t len = rdmamsg_msg_len(msg);
	char *bytes;
	struct pyr_event *e = push(queue_of(ep), PYR_MESSAGE,
				   (uintptr_t)rdmamsg_ep_user(ep), len, &bytes);

	if (!e)
		return -1;
	if (len)
		memcpy(bytes, rdmamsg_msg_data(msg), len);
	e->value = rdmamsg_msg_tag(msg);
	rdmamsg_msg_free(msg);
	return 0;
}

/* The reference lets any thread free the message, and after the context. */
static int lend_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct pyr_event *e;

	if (rdmamsg_msg_ref(msg))
		return -1;
	e = push_ep(ep, PYR_LENT);
	rdmamsg_msg_free(msg);
	if (!e)
		return -1;
	e->object = (uintptr_t)msg;
	e->len = rdmamsg_msg_len(msg);
	e->value = rdmamsg_msg_tag(msg);
	return 0;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	int err;

	if (queue_of(ep)->closing) {
		rdmamsg_msg_free(msg);
		return;
	}
	err = rdmamsg_msg_len(msg) <= COPY_MAX ? copy_message(ep, msg) :
						  lend_message(ep, msg);
	if (!err)
		return;
	/* without memory a message would be lost in silence */
	rdmamsg_msg_free(msg);
	rdmamsg_ep_abort(ep);
}

static void complete(struct rdmamsg_ep *ep, enum pyr_kind kind, void *cookie,
		     int status)
{
	struct pyr_event *e = push_ep(ep, kind);

	if (!e)
		return;
	e->value = (uintptr_t)cookie;
	e->status = status;
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	complete(ep, PYR_COMPLETE, cookie, status);
}

static void on_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	complete(ep, PYR_LATE, cookie, status);
}

void (*pyr_on_late(void))(struct rdmamsg_ep *ep, void *cookie, int status)
{
	return on_late;
}

static void on_connected(struct rdmamsg_ep *ep)
{
	push_ep(ep, PYR_CONNECTED);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	push_ep(ep, PYR_WRITABLE);
}

static void on_stalled(struct rdmamsg_ep *ep, uint32_t silent_ms)
{
	struct pyr_event *e = push_ep(ep, PYR_STALLED);

	if (e)
		e->value = silent_ms;
}

static void on_resumed(struct rdmamsg_ep *ep)
{
	push_ep(ep, PYR_RESUMED);
}

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	struct pyr_event *e = push_ep(ep, PYR_WRITTEN);

	if (e)
		e->value = value;
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *p)
{
	const struct pyr_path path = { p->change, p->port, p->alternate, p->ms,
				       p->repeated };
	size_t len = p->text ? strlen(p->text) : 0;
	char *bytes;

	if (!push(queue_of(ep), PYR_PATH, (uintptr_t)rdmamsg_ep_user(ep),
		  sizeof(path) + len, &bytes))
		return;
	memcpy(bytes, &path, sizeof(path));
	memcpy(bytes + sizeof(path), p->text ? p->text : "", len);
}

/* The binding holds the endpoint, and asks it for the reason. */
static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	push_ep(ep, PYR_CLOSED);
}

const struct rdmamsg_ep_handlers *pyr_ep_handlers(void)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on),
		.on_connected = on_connected,
		.on_message = on_message,
		.on_complete = on_complete,
		.on_writable = on_writable,
		.on_stalled = on_stalled,
		.on_resumed = on_resumed,
		.on_written = on_written,
		.on_path = on_path,
		.on_closed = on_closed,
	};

	return &on;
}

/* ---- listeners -------------------------------------------------------- */

static struct pyr_queue *listener_queue(const struct rdmamsg_listener *listener)
{
	return rdmamsg_user(rdmamsg_listener_ctx(listener));
}

static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	struct pyr_queue *q = listener_queue(listener);
	struct pyr_event *e = q->closing ? NULL :
		push(q, PYR_REQUEST, (uintptr_t)rdmamsg_listener_user(listener),
		     0, NULL);

	if (e)
		e->object = (uintptr_t)req;
	else
		rdmamsg_request_reject(req, NULL, 0);
}

static void on_failed(struct rdmamsg_listener *listener, int error)
{
	struct pyr_event *e =
		push(listener_queue(listener), PYR_LISTEN_FAILED,
		     (uintptr_t)rdmamsg_listener_user(listener), 0, NULL);

	if (e)
		e->status = error;
}

static void on_accept_failed(struct rdmamsg_listener *listener,
			     const struct rdmamsg_reason *why)
{
	struct pyr_event *e =
		push_text(listener_queue(listener), PYR_ACCEPT_FAILED,
			  (uintptr_t)rdmamsg_listener_user(listener), why->text);

	if (e)
		e->status = why->error;
}

const struct rdmamsg_listener_handlers *pyr_listener_handlers(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on),
		.on_request = on_request,
		.on_failed = on_failed,
		.on_accept_failed = on_accept_failed,
	};

	return &on;
}

/* ---- groups ----------------------------------------------------------- */

static struct pyr_event *push_group(struct rdmamsg_group *group,
				    enum pyr_kind kind,
				    const struct rdmamsg_reason *why)
{
	struct pyr_owner *owner = rdmamsg_group_user(group);
	struct pyr_event *e = push_text(owner->queue, kind, owner->id,
					why ? why->text : NULL);

	if (e && why)
		e->status = why->error;
	return e;
}

static void on_joined(struct rdmamsg_group *group)
{
	push_group(group, PYR_JOINED, NULL);
}

static void on_lost(struct rdmamsg_group *group,
		    const struct rdmamsg_reason *why)
{
	push_group(group, PYR_LOST, why);
}

static void on_published(struct rdmamsg_group *group,
			 const struct rdmamsg_group_message *msg)
{
	const struct pyr_published head = {
		msg->sender->id, msg->number, msg->imm, msg->has_imm,
		msg->sender->qp_num, msg->is_backlog != 0, 0
	};
	struct pyr_owner *owner = rdmamsg_group_user(group);
	char *bytes;

	/* a group promises nothing: without memory the message is lost */
	if (!push(owner->queue, PYR_PUBLISHED, owner->id,
		  sizeof(head) + msg->len, &bytes))
		return;
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + sizeof(head), msg->data, msg->len);
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	struct pyr_event *e = push_group(group, PYR_GAP, NULL);

	if (!e)
		return;
	e->value = sender->id;
	e->object = (uint64_t)first << 32 | last;
}

static void on_backlog(struct rdmamsg_group *group,
		       const struct rdmamsg_group_sender *sender,
		       uint32_t first, uint32_t count, int less)
{
	struct pyr_event *e = push_group(group, PYR_BACKLOG, NULL);

	if (!e)
		return;
	e->value = sender->id;
	e->object = (uint64_t)first << 32 | count;
	e->status = less != 0;
}

static void on_group_writable(struct rdmamsg_group *group)
{
	push_group(group, PYR_GROUP_WRITABLE, NULL);
}

static void push_struct(struct rdmamsg_group *group, enum pyr_kind kind,
			const void *from, size_t size)
{
	struct pyr_owner *owner = rdmamsg_group_user(group);
	char *bytes;

	if (push(owner->queue, kind, owner->id, size, &bytes))
		memcpy(bytes, from, size);
}

static void on_flushed(struct rdmamsg_group *group,
		       const struct rdmamsg_group_flushed *flushed)
{
	push_struct(group, PYR_FLUSHED, flushed, sizeof(*flushed));
}

static void on_laggard(struct rdmamsg_group *group,
		       const struct rdmamsg_group_member *m)
{
	push_struct(group, PYR_LAGGARD, m, sizeof(*m));
}

static void on_left(struct rdmamsg_group *group,
		    const struct rdmamsg_reason *why)
{
	push_group(group, PYR_LEFT, why);
}

const struct rdmamsg_group_handlers *pyr_group_handlers(void)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on),
		.on_joined = on_joined,
		.on_lost = on_lost,
		.on_message = on_published,
		.on_gap = on_gap,
		.on_writable = on_group_writable,
		.on_closed = on_left,
		.on_flushed = on_flushed,
		.on_backlog = on_backlog,
		.on_laggard = on_laggard,
	};

	return &on;
}

struct members {
	struct rdmamsg_group_member *at;
	int count, room;
};

static int add_member(const struct rdmamsg_group_member *m, void *user)
{
	struct members *all = user;

	if (all->count == all->room)
		return 1;
	all->at[all->count++] = *m;
	return 0;
}

int pyr_group_members(const struct rdmamsg_group *group,
		      struct rdmamsg_group_member *members, int room)
{
	struct members all = { members, 0, room };
	int ret = rdmamsg_group_members(group, add_member, &all);

	return ret < 0 ? ret : all.count;
}

/* ---- teams ------------------------------------------------------------ */

static void on_done(struct rdmamsg_team *team, void *cookie, int status)
{
	struct pyr_owner *owner = rdmamsg_team_user(team);
	struct pyr_event *e = push(owner->queue, PYR_DONE, owner->id, 0, NULL);

	if (!e)
		return;
	e->value = (uintptr_t)cookie;
	e->status = status;
}

const struct rdmamsg_team_handlers *pyr_team_handlers(void)
{
	static const struct rdmamsg_team_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};

	return &on;
}

/* ---- the context ------------------------------------------------------ */

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	uint64_t id = ev->ep ? (uintptr_t)rdmamsg_ep_user(ev->ep) : 0;
	char text[192];
	struct pyr_event *e;

	snprintf(text, sizeof(text), "%s\n%s", ev->name,
		 ev->device ? ev->device : "");
	e = push_text(rdmamsg_user(ctx), PYR_DEVICE, id, text);
	if (!e)
		return;
	e->status = ev->type;
	e->value = ev->port;
}

static void on_shutdown(struct rdmamsg *ctx, uint32_t failed)
{
	struct pyr_event *e = push(rdmamsg_user(ctx), PYR_SHUTDOWN, 0, 0, NULL);

	if (e)
		e->value = failed;
}

const struct rdmamsg_ctx_handlers *pyr_ctx_handlers(void)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on),
		.on_event = on_event,
		.on_shutdown = on_shutdown,
	};

	return &on;
}

int pyr_open(struct rdmamsg_options *opts, struct pyr_queue *q,
	     struct rdmamsg **ret)
{
	opts->user = q;
	opts->handlers = pyr_ctx_handlers();
	return rdmamsg_open(ret, opts);
}

struct text {
	char *buf;
	size_t size, len;
};

static void add_line(void *arg, const char *line)
{
	struct text *t = arg;
	size_t len = strlen(line);

	if (t->len + len + 1 <= t->size) {
		memcpy(t->buf + t->len, line, len);
		t->buf[t->len + len] = '\n';
	}
	t->len += len + 1;
}

size_t pyr_dump(const struct rdmamsg *ctx, char *buf, size_t size)
{
	struct text t = { .buf = buf, .size = size };

	rdmamsg_dump(ctx, add_line, &t);
	return t.len;
}

struct topics {
	struct pyr_topic *topics;
	int count, room;
};

static int add_topic(const char *name, const char *address, void *user)
{
	struct topics *t = user;
	struct pyr_topic *to = &t->topics[t->count];

	if (t->count++ >= t->room)
		return 0;
	snprintf(to->name, sizeof(to->name), "%s", name);
	snprintf(to->address, sizeof(to->address), "%s", address);
	return 0;
}

int pyr_topics(const char *pattern, struct pyr_topic *topics, int room)
{
	struct topics t = { topics, 0, room };

	return rdmamsg_topics_each(pattern, add_topic, &t);
}
