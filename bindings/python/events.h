/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Callbacks of the library as events in a queue, which Python takes after the
 * call that has driven the context. No Python code runs in a callback: an
 * exception cannot be lost there, and a batch of events costs Python one call.
 * build_ffi.py declares this file and the public headers to cffi.
 */
enum pyr_kind {
	/* of an endpoint */
	PYR_MESSAGE = 1,	/* value: tag; the bytes are in the arena */
	PYR_LENT,		/* value: tag; object: the message */
	PYR_COMPLETE,		/* value: cookie; status */
	PYR_LATE,		/* the same, of on_late */
	PYR_WRITABLE,
	PYR_CONNECTED,
	PYR_CLOSED,
	PYR_STALLED,		/* value: milliseconds */
	PYR_RESUMED,
	PYR_WRITTEN,		/* value */
	PYR_PATH,		/* struct pyr_path, text */
	/* of a listener */
	PYR_REQUEST,		/* object: the request */
	PYR_LISTEN_FAILED,	/* status */
	PYR_ACCEPT_FAILED,	/* status; text */
	/* of a group */
	PYR_JOINED,
	PYR_LOST,		/* status; text */
	PYR_PUBLISHED,		/* struct pyr_published, payload */
	PYR_GAP,		/* value: sender; object: first << 32 | last */
	PYR_GROUP_WRITABLE,
	PYR_BACKLOG,		/* as PYR_GAP; status: less */
	PYR_LAGGARD,		/* struct rdmamsg_group_member */
	PYR_FLUSHED,		/* struct rdmamsg_group_flushed */
	PYR_LEFT,		/* status; text */
	/* of a team */
	PYR_DONE,		/* value: cookie; status */
	/* of the context */
	PYR_DEVICE,		/* status: type; value: port; id; names */
	PYR_SHUTDOWN,		/* value: how many failed */
};

/* Python reads it as struct.Struct("IiQQQQ"). */
struct pyr_event {
	uint32_t kind;		/* enum pyr_kind */
	int32_t status;
	uint64_t id;		/* of the object that the event is for */
	uint64_t value;
	uint64_t object;	/* a pointer, or where the bytes begin */
	uint64_t len;		/* bytes in the arena, or of the message */
};

struct pyr_path {
	uint32_t change;	/* enum rdmamsg_path_change */
	uint32_t port;
	uint32_t alternate;
	uint32_t ms;
	uint32_t repeated;
};

struct pyr_published {
	uint64_t sender;
	uint32_t number;
	uint32_t imm;
	uint32_t has_imm;
	uint32_t qp_num;
	uint32_t is_backlog;
	uint32_t zero;
};

/*
 * Events that Python has taken, valid until the next pyr_take(). next counts
 * those that it has handled: Ctrl-C may leave some, for the next time.
 */
struct pyr_batch {
	const struct pyr_event *events;
	size_t count;
	size_t next;
	const char *arena;
	size_t bytes;
	int lost;		/* 1, for ever: no memory for an event */
};

struct pyr_queue;

struct pyr_queue *pyr_queue_new(void);
/* Frees lent messages that nobody has taken. After rdmamsg_close(). */
void pyr_queue_free(struct pyr_queue *q);
/* Moves all events to *batch. Returns their number. */
size_t pyr_take(struct pyr_queue *q, struct pyr_batch *batch);
/*
 * Polls the context until there is an event, for at most so many microseconds.
 * Returns 0, also if there is none, or what rdmamsg_poll() has failed with.
 */
int pyr_spin(struct rdmamsg *ctx, struct pyr_queue *q, uint32_t us);
/* From now on messages are dropped: rdmamsg_close() ends them. */
void pyr_closing(struct pyr_queue *q);

/* The handlers, which expect a queue as user of the context. */
const struct rdmamsg_ep_handlers *pyr_ep_handlers(void);
const struct rdmamsg_ctx_handlers *pyr_ctx_handlers(void);
const struct rdmamsg_listener_handlers *pyr_listener_handlers(void);
const struct rdmamsg_group_handlers *pyr_group_handlers(void);
const struct rdmamsg_team_handlers *pyr_team_handlers(void);
void (*pyr_on_late(void))(struct rdmamsg_ep *ep, void *cookie, int status);

/* rdmamsg_open() with a queue; the user of group and team is their id. */
int pyr_open(struct rdmamsg_options *opts, struct pyr_queue *q,
	     struct rdmamsg **ret);
/* rdmamsg_group_join() and rdmamsg_team_connect(); the user is a pyr_owner */
struct pyr_owner {
	struct pyr_queue *queue;
	uint64_t id;
};

/* rdmamsg_group_members(): writes at most 'room'. Returns their number. */
int pyr_group_members(const struct rdmamsg_group *group,
		      struct rdmamsg_group_member *members, int room);

struct pyr_topic {
	char name[256];
	char address[64];
};

/* The topics that the pattern matches; writes at most 'room' of them. */
int pyr_topics(const char *pattern, struct pyr_topic *topics, int room);

/* Destructor of a lent message, on any thread. */
void pyr_msg_free(void *msg);
/* Appends rdmamsg_dump() to buf. Returns the length of the whole text. */
size_t pyr_dump(const struct rdmamsg *ctx, char *buf, size_t size);
