/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a program of sockets that librspreload turns into rsockets, above
 * the soft HCA. The device's own sockets stay sockets, although the same socket()
 * makes them.
 *
 * Usage: rsockets PRELOAD PORT [ADDRESS]: a client if there is an address
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES	200000

static unsigned char sent[BYTES], got[BYTES];

/* Starts this program again below the library, behind what is preloaded. */
static void preload(char **argv)
{
	const char *have = getenv("LD_PRELOAD");
	char list[1024];

	if (have && strstr(have, argv[1]))
		return;
	(void)snprintf(list, sizeof(list), "%s%s%s", have ? have : "",
		       have ? ":" : "", argv[1]);
	(void)setenv("LD_PRELOAD", list, 1);
	(void)execv("/proc/self/exe", argv);
	err(1, "exec");
}

/* An rsocket has a descriptor of /dev/null in the program. */
static bool is_rsocket(int fd)
{
	socklen_t len = sizeof(int);
	char path[64], to[64];
	ssize_t n;
	int on;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return false;
	to[n] = 0;
	return !strcmp(to, "/dev/null") &&
	       !getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, &len);
}

static void check_descriptors(int own)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		count += atoi(e->d_name) > 2 && is_rsocket(atoi(e->d_name));
	if (dir)
		(void)closedir(dir);
	if (count != own)
		errx(1, "%d rsockets, but the program has %d", count, own);
}

static void all(int fd, unsigned char *buf, bool sends)
{
	for (size_t n = 0; n < BYTES; ) {
		ssize_t part = sends ? send(fd, buf + n, BYTES - n, 0) :
				       recv(fd, buf + n, BYTES - n, 0);

		if (part <= 0)
			err(1, sends ? "send" : "recv");
		n += (size_t)part;
	}
}

static void serve(int fd, const struct sockaddr_in *at)
{
	int one;

	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) ||
	    listen(fd, 1))
		err(1, "listen");
	one = accept(fd, NULL, NULL);
	if (one < 0)
		err(1, "accept");
	all(one, got, false);
	all(one, got, true);
	check_descriptors(2);
	/* the client ends first */
	(void)recv(one, got, 1, 0);
	(void)close(one);
}

static void ask(int fd, const struct sockaddr_in *at)
{
	for (size_t i = 0; i < BYTES; i++)
		sent[i] = (unsigned char)(i * 7 + i / 256);
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)))
		err(1, "connect");
	all(fd, sent, true);
	all(fd, got, false);
	if (memcmp(sent, got, BYTES))
		errx(1, "other bytes came back");
	check_descriptors(1);
	(void)shutdown(fd, SHUT_RDWR);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd;

	if (argc < 3)
		return 2;
	preload(argv);
	at.sin_port = htons((uint16_t)atoi(argv[2]));
	if (inet_pton(AF_INET, argc > 3 ? argv[3] : "0.0.0.0",
		      &at.sin_addr) != 1)
		return 2;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || !is_rsocket(fd))
		errx(1, "the socket is no rsocket");
	if (argc > 3)
		ask(fd, &at);
	else
		serve(fd, &at);
	(void)close(fd);
	puts("all bytes came back");
	return 0;
}
