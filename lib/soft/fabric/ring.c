/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/fabric/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/page.h"
#include "soft/fabric/memfd.h"

/* The data begins on the next page, because it is mapped twice. */
static size_t control_size(void)
{
	return whole_pages(sizeof(struct soft_ring_shm));
}

size_t soft_rings_size(void)
{
	return 2 * (control_size() + SOFT_RING_SIZE);
}

int soft_rings_create(void)
{
	return soft_memfd_create("soft-wire", soft_rings_size());
}

int soft_rings_check(int fd)
{
	return soft_memfd_check(fd, soft_rings_size()) ? 0 : -EPROTO;
}

/*
 * Maps the control page and the data of one ring. Maps the data twice in a row.
 */
static int map_ring(int fd, off_t shm, off_t data, struct soft_ring *r)
{
	const int prot = PROT_READ | PROT_WRITE;
	const size_t page = control_size();
	uint8_t *at = mmap(NULL, page + 2 * (size_t)SOFT_RING_SIZE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ret;

	if (at == MAP_FAILED)
		return -errno;
	memset(r, 0, sizeof(*r));
	r->shm = (struct soft_ring_shm *)at;
	r->data = at + page;
	if (mmap(at, page, prot, MAP_SHARED | MAP_FIXED, fd, shm) ==
	    MAP_FAILED ||
	    mmap(r->data, SOFT_RING_SIZE, prot, MAP_SHARED | MAP_FIXED, fd,
		 data) == MAP_FAILED ||
	    mmap(r->data + SOFT_RING_SIZE, SOFT_RING_SIZE, prot,
		 MAP_SHARED | MAP_FIXED, fd, data) == MAP_FAILED) {
		ret = -errno;
		soft_ring_unmap(r);
		return ret;
	}
	return 0;
}

int soft_rings_map(int fd, struct soft_ring rings[2])
{
	const off_t page = (off_t)control_size();
	int ret = map_ring(fd, 0, 2 * page, &rings[0]);

	if (ret)
		return ret;
	ret = map_ring(fd, page, 2 * page + SOFT_RING_SIZE, &rings[1]);
	if (ret)
		soft_ring_unmap(&rings[0]);
	return ret;
}

int soft_ring_loop(struct soft_ring *tx, struct soft_ring *rx)
{
	const off_t page = (off_t)control_size();
	int fd = soft_memfd_create("soft-wire", (size_t)page + SOFT_RING_SIZE);
	int ret;

	if (fd < 0)
		return fd;
	ret = map_ring(fd, 0, page, tx);
	close(fd);
	*rx = *tx;
	return ret;
}

void soft_ring_unmap(struct soft_ring *r)
{
	if (r->shm)
		(void)munmap(r->shm, control_size() +
			     2 * (size_t)SOFT_RING_SIZE);
	memset(r, 0, sizeof(*r));
}
