/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices with more abilities than the soft HCA. */
#ifndef RDMAMSG_TESTS_UNIT_CAPS_MORE_H
#define RDMAMSG_TESTS_UNIT_CAPS_MORE_H

static enum ibv_fork_status fork_status;

static enum ibv_fork_status is_fork_initialized(void)
{
	return fork_status;
}

static int fork_inits;

/* ibv_fork_init() fails if memory was registered before. */
static int fork_init(void)
{
	assert_int_equal(registered, 0);
	fork_inits++;
	return EINVAL;
}

static int dmabuf_error;

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *p, uint64_t offset,
				    size_t len, uint64_t iova, int fd,
				    int access)
{
	assert_int_equal(fd, -1);
	errno = dmabuf_error;
	return NULL;
}

/* A device that reports neither RSS nor TSO. */
static int query_neither(struct ibv_context *verbs,
			 struct ibv_device_attr_ex *attr)
{
	int ret = soft.query_device_ex(verbs, attr);

	memset(&attr->rss_caps, 0, sizeof(attr->rss_caps));
	memset(&attr->tso_caps, 0, sizeof(attr->tso_caps));
	return ret;
}

static void caps__device_can_more_NATIVE(void **state)
{
	generous = true;
	assert_cap(RDMAMSG_CAP_ODP, RDMAMSG_CAP_NATIVE, "ON_DEMAND");
	assert_cap(RDMAMSG_CAP_RAW_PACKET, RDMAMSG_CAP_NATIVE, "created");
	assert_cap(RDMAMSG_CAP_TSO, RDMAMSG_CAP_NATIVE, "max_tso_header;");
	assert_int_equal(ask(RDMAMSG_CAP_TSO).value, 4321);
	assert_cap(RDMAMSG_CAP_RSS, RDMAMSG_CAP_NATIVE, "indirection table");
	assert_int_equal(ask(RDMAMSG_CAP_RSS).value, 128);
	table.reg_dmabuf_mr = reg_dmabuf_mr;
	dmabuf_error = EBADF;
	assert_cap(RDMAMSG_CAP_DMABUF, RDMAMSG_CAP_NATIVE, "descriptor");
	dmabuf_error = EOPNOTSUPP;
	assert_cap(RDMAMSG_CAP_DMABUF, RDMAMSG_CAP_ABSENT, "not supported");
	/*
	 * the device creates these queue pairs and tables, but cannot use them
	 */
	table.query_device_ex = query_neither;
	assert_cap(RDMAMSG_CAP_TSO, RDMAMSG_CAP_ABSENT, "tso_caps");
	assert_cap(RDMAMSG_CAP_RSS, RDMAMSG_CAP_ABSENT, "rss_caps");
}

static void caps__fork_SAYS_WHO_COPIES(void **state)
{
	table.is_fork_initialized = is_fork_initialized;
	table.fork_init = fork_init;
	fork_status = IBV_FORK_DISABLED;
	assert_cap(RDMAMSG_CAP_FORK, RDMAMSG_CAP_ABSENT, "too late");
	assert_int_equal(fork_inits, 1);
	fork_status = IBV_FORK_UNNEEDED;
	assert_cap(RDMAMSG_CAP_FORK, RDMAMSG_CAP_NATIVE, "this kernel copies");
	fork_status = IBV_FORK_ENABLED;
	assert_cap(RDMAMSG_CAP_FORK, RDMAMSG_CAP_SOFTWARE, "ibv_fork_init()");
}

#endif
