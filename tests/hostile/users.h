/* SPDX-License-Identifier: BSD-2-Clause */
/* Other users of the host: a part of strangers.c. */
#ifndef HOSTILE_USERS_H
#define HOSTILE_USERS_H

#define USERS		6u
#define USERS_ALWAYS	2u	/* of them, in all attacks */
#define USER_EACH	4096u	/* bytes of the server */
#define CONNECTS	20
#define NOBODY		65534
#define NODES		4u	/* those of the test, and one more */

static bool can_crowd(void)
{
	return !getuid();
}

/* Connects to the name of a node or, while it is crowded, of the listener. */
static void touch(unsigned int uid, unsigned int i)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	const size_t room = sizeof(un.sun_path) - 1;
	char *at = un.sun_path + 1;
	int n = snprintf(at, room, "rdmamsg-soft/%u/%s/", uid,
			 getenv("RDMAMSG_SOFT_FABRIC"));

	if (shared->crowded && i % 2)
		n += snprintf(at + n, room - (size_t)n, "cm/%x/%u/%s",
			      RDMA_PS_TCP, shared->port, address);
	else
		n += snprintf(at + n, room - (size_t)n, "node/%u",
			      i / 2 % NODES);
	(void)connect(fd, (struct sockaddr *)&un,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  (size_t)n));
	close(fd);
}

/* Fills the backlogs, as fast as it can. */
static int crowd(bool always)
{
	const unsigned int uid = getuid();

	/* the kernel forgets the parent's end with the user */
	if (setgid(NOBODY) || setuid(NOBODY) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL))
		return 1;
	for (unsigned int i = 0; !shared->quit; i++)
		if (always || shared->crowded)
			touch(uid, i);
		else
			usleep(1000);
	/* a sanitizer cannot look for leaks as this user */
	_exit(0);
}

static int crowd_always(void)
{
	return crowd(true);
}

static int crowd_later(void)
{
	return crowd(false);
}

/* Each has the time that options without a time give it. */
static void crowded_names(void)
{
	const struct attack b = begin_attack();
	uint64_t longest = 0;
	uint32_t n = 0;

	if (!can_crowd()) {
		printf("skip crowded-names # only root becomes another "
		       "user\n");
		return;
	}
	shared->crowded = true;
	while (n < CONNECTS && longest <= CONNECT_MS) {
		longest = max(longest, connect_once());
		n++;
	}
	verdict("crowded-names", longest <= CONNECT_MS &&
		in_budget(&b, (struct cost){
			.strangers = USERS, .each = USER_EACH,
			.connects = true, .times = 4,
		}), "%u connections beside %u other users, %llu ms at most: "
		"%s; %s", n, USERS, (unsigned long long)longest,
		longest <= CONNECT_MS ? "" : rdmamsg_error(), harm->text);
	shared->crowded = false;
}

#endif
