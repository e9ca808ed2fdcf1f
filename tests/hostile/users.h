/* SPDX-License-Identifier: BSD-2-Clause */
/* Other users of the host: a part of strangers.c. */
#ifndef HOSTILE_USERS_H
#define HOSTILE_USERS_H

#define USERS		6u
#define USERS_ALWAYS	2u	/* of them, in all attacks */
#define USER_EACH	4096u	/* bytes of the server */
#define CONNECTS	20
#define NOBODY		65534

static bool can_crowd(void)
{
	return !getuid();
}

/* Fills the backlogs of all nodes, as fast as it can. */
static int crowd(bool always)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const unsigned int uid = getuid();

	/* the kernel forgets the parent's end with the user */
	if (setgid(NOBODY) || setuid(NOBODY) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL))
		return 1;
	for (unsigned int i = 0; !shared->quit; i++) {
		int fd, n;

		if (!always && !shared->crowded) {
			usleep(1000);
			continue;
		}
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1,
				 "rdmamsg-soft/%u/%s/node/%u", uid,
				 getenv("RDMAMSG_SOFT_FABRIC"), i % 4);

		(void)connect(fd, (struct sockaddr *)&un,
			      (socklen_t)(offsetof(struct sockaddr_un,
						   sun_path) + 1 + (size_t)n));
		close(fd);
	}
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
