/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-cli: commands from standard input for kv-server. 'get' reads the server's
 * memory, and 'ask' asks it. When the server is killed, the program connects
 * again, as soon as another server listens there, and repeats the command: a
 * put may be done twice, which changes nothing.
 */
#include "../usage.h"
#include "client.h"
#include "follow.h"

static struct kv kv;

static const char *const words[] = {
	[KV_OK] = "stored", [KV_ABSENT] = "not there",
	[KV_FULL] = "too much: the table has no room",
	[KV_REFUSED] = "refused: the server ends, or cannot write its log",
	[KV_MALFORMED] = "malformed: this program and the server differ",
};

static const char *word(const struct kv_item *answer)
{
	const uint16_t kind = answer->head.kind;

	return kind < sizeof(words) / sizeof(*words) && words[kind] ?
		words[kind] : words[KV_MALFORMED];
}

static int put(const char *key, const char *value)
{
	struct kv_item answer;
	int ret = kv_ask(&kv, KV_PUT, key, value, strlen(value), 0, &answer);

	if (!ret)
		printf("%s is %s\n", key, word(&answer));
	return ret;
}

static int delete(const char *key)
{
	struct kv_item answer;
	int ret = kv_ask(&kv, KV_DELETE, key, NULL, 0, 0, &answer);

	if (!ret)
		printf("%s is %s\n", key, answer.head.kind == KV_OK ?
		       "deleted" : word(&answer));
	return ret;
}

/* get: one-sided, if the connection can */
static int get(const char *key, bool by_message)
{
	struct kv_item answer;
	int ret = by_message || kv.tcp ?
			kv_ask(&kv, KV_GET, key, NULL, 0, 0, &answer) :
			kv_get(&kv, key, &answer);

	if (ret)
		return ret;
	if (answer.head.kind == KV_OK)
		printf("%s: %.*s\n", key, (int)answer.head.value_len,
		       (const char *)answer.value);
	else
		printf("%s is %s\n", key, word(&answer));
	return 0;
}

/*
 * An addition whose answer is missing may have been made or not, so it is not
 * repeated.
 */
static int add(const char *name, const char *number)
{
	static bool told;
	struct kv_item answer;
	char *end;
	uint64_t n = strtoull(number, &end, 0);
	int ret;

	if (*end) {
		fprintf(stderr, "kv-cli: '%s' is no number\n", number);
		return 0;
	}
	ret = kv_add(&kv, name, n, &answer);
	if (kv.no_atomics && !told)
		warnx("this device has no atomic operations; "
		      "the server counts");
	told = kv.no_atomics;
	if (ret)
		printf("%s is in doubt\n", name);
	else if (answer.head.kind == KV_OK)
		printf("%s: %llu\n", name,
		       (unsigned long long)answer.head.number);
	else
		printf("%s is %s\n", name, word(&answer));
	return ret;
}

static int command(char *line)
{
	char *what = strtok(line, " \n"), *key = strtok(NULL, " \n");
	char *value = strtok(NULL, "\n");

	if (what && key && strlen(key) <= KV_KEY_MAX) {
		if ((!strcmp(what, "get") || !strcmp(what, "ask")) && !value)
			return get(key, *what == 'a');
		if (!strcmp(what, "delete") && !value)
			return delete(key);
		if (!strcmp(what, "put") && value &&
		    strlen(value) <= KV_VALUE_MAX)
			return put(key, value);
		if (!strcmp(what, "add") && value)
			return add(key, value);
	}
	warnx("none of 'put KEY VALUE', 'get KEY', 'ask KEY', 'delete KEY', "
	      "'add NAME NUMBER'");
	return 0;
}

/* All commands may be done twice, except an addition. */
static void do_command(const char *line)
{
	static char copy[2 * KV_ITEM_MAX];
	int ret;

	do {
		strcpy(copy, line);
		ret = command(copy);
		if (!ret)
			return;
		fprintf(stderr, "kv-cli: %s; connecting again\n", kv.reason);
		kv_connect(&kv);
	} while (strncmp(line, "add ", 4));
}

static int run(bool tcp, const char *host, const char *port)
{
	static char line[2 * KV_ITEM_MAX];

	kv_open(&kv, tcp, host, port);
	while (fgets(line, sizeof(line), stdin))
		do_command(line);
	if (!tcp)
		fprintf(stderr, "kv-cli: %lu reads met a change\n", kv.torn);
	kv_close(&kv);
	return 0;
}

int main(int argc, char **argv)
{
	usage(argc, argv, "kv-cli tcp|rdma HOST PORT | "
	      "kv-cli follow HOST PORT [UNTIL]", 3, 4);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[1], "follow"))
		return follow(argv[2], argv[3], argc > 4 ?
			      strtoull(argv[4], NULL, 10) : 0);
	if (argc > 4 || (strcmp(argv[1], "tcp") && strcmp(argv[1], "rdma")))
		errx(2, "'%s' is none of tcp, rdma and follow; see --help",
		     argv[1]);
	return run(!strcmp(argv[1], "tcp"), argv[2], argv[3]);
}
