/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/fabric/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "soft/fabric/denied.h"

#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/*
 * Linux limits this memory as a file, and sends SIGXFSZ, which ends a program
 * that knows of no file. So the limit is looked at first.
 */
static bool is_allowed(size_t size)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur == RLIM_INFINITY ||
	       size <= rl.rlim_cur;
}

int soft_memfd_create(const char *name, size_t size)
{
	int fd, ret;

	if (!is_allowed(size))
		return -EFBIG;
	fd = fd_high(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return soft_denied(-errno);
	if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, SEALS)) {
		ret = soft_denied(-errno);
		close(fd);
		return ret;
	}
	return fd;
}

bool soft_memfd_check(int fd, size_t size)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	/* without seals the peer could truncate the memory, and cause SIGBUS */
	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) &&
	       st.st_size == (off_t)size;
}
