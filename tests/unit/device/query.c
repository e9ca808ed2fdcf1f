/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: attributes of devices and ports, GID and P_Key tables, as
 * reported by the soft HCA and by a simulated device.
 */
#include "device/codes.h"
#include "device/verbs_api.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#include "../own_fabric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define soft	rdmamsg__verbs_soft

/* ---- a table over the soft HCA ----------------------------------------- */

static struct ibv_device broken = {
	.name = "broken0", .dev_name = "uverbs-broken0",
};
static int open_error;			/* errno of opening broken0 */
static int list_error;
static bool no_devices;
static bool iwarp;			/* soft0 */
static struct ibv_port_attr port_attr;
static unsigned int caps;
static uint32_t vendor;			/* 0: that of the soft HCA */
static int ports_ex;			/* -1: 0, and 0: that of the soft HCA */
static int no_extended;		/* errno of the extended query, or 0 */
static __be16 pkeys[4];
static int bad_entry, bad_error;	/* errno of reading one entry, or 0 */
static int empty_entry;			/* of the GID table, or -1 */
static struct verbs_api table;

static struct ibv_device **get_device_list(int *num)
{
	struct ibv_device **real, **list;
	int n;

	if (list_error) {
		errno = list_error;
		return NULL;
	}
	list = calloc(3, sizeof(*list));
	real = soft.get_device_list(&n);
	assert_true(list && real && n == 1);
	*num = 0;
	if (!no_devices) {
		list[(*num)++] = &broken;
		list[(*num)++] = real[0];
	}
	soft.free_device_list(real);
	return list;
}

static struct ibv_context *open_device(struct ibv_device *d)
{
	if (d != &broken) {
		d->transport_type = iwarp ? IBV_TRANSPORT_IWARP :
				    IBV_TRANSPORT_IB;
		return soft.open_device(d);
	}
	errno = open_error;
	return NULL;
}

static int query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	int ret = soft.query_device(c, attr);

	attr->device_cap_flags |= caps;
	if (vendor)
		attr->vendor_id = vendor;
	return ret;
}

static int query_device_ex(struct ibv_context *c,
			   struct ibv_device_attr_ex *attr)
{
	int ret = soft.query_device_ex(c, attr);

	if (ports_ex)
		attr->phys_port_cnt_ex = ports_ex < 0 ? 0 : (uint32_t)ports_ex;
	return no_extended ? no_extended : ret;
}

static int query_port(struct ibv_context *c, uint8_t port,
		      struct ibv_port_attr *attr)
{
	if (port_attr.state == IBV_PORT_NOP)
		return soft.query_port(c, port, attr);
	*attr = port_attr;
	return 0;
}

static int query_pkey(struct ibv_context *c, uint8_t port, int index,
		      __be16 *pkey)
{
	if (bad_error && index == bad_entry) {
		errno = bad_error;
		return -1;
	}
	*pkey = pkeys[index];
	return 0;
}

static int query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry)
{
	if (bad_error && (int)index == bad_entry)
		return bad_error;
	memset(entry, 0, sizeof(*entry));
	return (int)index == empty_entry ? 0 :
	       soft.query_gid_ex(c, port, index, entry);
}

static int set_up(void **state)
{
	open_error = EACCES;
	list_error = 0;
	no_devices = iwarp = false;
	caps = vendor = 0;
	bad_entry = bad_error = ports_ex = no_extended = 0;
	empty_entry = -1;
	memset(&port_attr, 0, sizeof(port_attr));
	memset(pkeys, 0, sizeof(pkeys));
	table = soft;
	table.get_device_list = get_device_list;
	table.open_device = open_device;
	table.query_device = query_device;
	table.query_device_ex = query_device_ex;
	table.query_port = query_port;
	table.query_pkey = query_pkey;
	table.query_gid_ex = query_gid_ex;
	rdmamsg__verbs = &table;
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg__verbs = &rdmamsg__verbs_system;
	return 0;
}

static void assert_error(int ret, int error, const char *text)
{
	assert_int_equal(ret, error);
	assert_non_null(strstr(rdmamsg_error(), text));
}

/* ---- devices ----------------------------------------------------------- */

static void devices__one_cannot_be_opened_OTHERS_ARE_LISTED(void **state)
{
	struct rdmamsg_device_attr list[3];

	assert_int_equal(rdmamsg_devices(list, sizeof(list[0]), 3), 2);
	assert_string_equal(list[0].name, "broken0");
	assert_string_equal(list[0].node, "uverbs-broken0");
	assert_int_equal(list[0].error, -EACCES);
	assert_int_equal(list[0].ports, 0);
	assert_string_equal(list[1].name, "soft0");
	assert_int_equal(list[1].error, 0);
	assert_int_equal(list[1].ports, 2);
	/* counting opens no device */
	open_error = EIO;
	assert_int_equal(rdmamsg_devices(NULL, 0, 0), 2);
}

/* In place of libibverbs', for rdmamsg__verbs_system. */
#undef ibv_get_device_list
struct ibv_device **ibv_get_device_list(int *num)
{
	return get_device_list(num);
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	errno = EACCES;
	return NULL;
}

/* The soft HCA comes behind the devices of the host, if there is room. */
static void devices__beside_the_soft_HCA_BOTH_ARE_LISTED(void **state)
{
	struct rdmamsg_device_attr list[3] = { { .size = 0 } };

	rdmamsg__verbs = &rdmamsg__verbs_system;
	assert_int_equal(rdmamsg_devices(list, sizeof(list[0]), 3), 3);
	assert_string_equal(list[0].name, "broken0");
	assert_string_equal(list[2].name, "soft0");
	assert_int_equal(list[2].error, 0);
	assert_int_equal(rdmamsg_devices(list, sizeof(list[0]), 2), 3);
	assert_string_equal(list[0].name, "broken0");
}

static void query__errors_DIFFER(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	assert_error(rdmamsg_device_query("nosuch", &a), -ENXIO, "nosuch");
	assert_error(rdmamsg_device_query("broken0", &a), -EACCES,
		     "/dev/infiniband");
	assert_error(rdmamsg_device_query(NULL, &a), -EACCES,
		     "/dev/infiniband");
	open_error = EMFILE;
	assert_error(rdmamsg_device_query("broken0", &a), -EMFILE, "ulimit");
	no_devices = true;
	assert_error(rdmamsg_device_query("nosuch", &a), -ENODEV, "nosuch");
	assert_error(rdmamsg_device_query(NULL, &a), -ENODEV, "no RDMA");
	list_error = ENOSYS;
	assert_error(rdmamsg_device_query(NULL, &a), -ENODEV, "no RDMA");
	list_error = EACCES;
	assert_error(rdmamsg_device_query(NULL, &a), -EACCES, "permission");
	assert_string_equal(a.name, "");
}

static void query__bad_size_EINVAL(void **state)
{
	struct rdmamsg_device_attr a = { .size = 0 };

	assert_error(rdmamsg_device_query("soft0", &a), -EINVAL, "size");
	assert_error(rdmamsg_device_query("soft0", NULL), -EINVAL, "struct");
}

static void check_guid(uint64_t host, const uint8_t *wire, const char *text)
{
	const __be64 be = htobe64(host);
	char expected[20];

	assert_memory_equal(wire, &be, sizeof(be));
	snprintf(expected, sizeof(expected), "%04x:%04x:%04x:%04x",
		 (unsigned int)(host >> 48 & 0xffff),
		 (unsigned int)(host >> 32 & 0xffff),
		 (unsigned int)(host >> 16 & 0xffff),
		 (unsigned int)(host & 0xffff));
	assert_string_equal(text, expected);
}

static void query__soft_HAS_WHAT_VERBS_REPORT(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	struct ibv_device **list = soft.get_device_list(NULL);
	struct ibv_context *c = soft.open_device(list[0]);
	struct ibv_device_attr d;

	assert_int_equal(soft.query_device(c, &d), 0);
	caps = IBV_DEVICE_BAD_PKEY_CNTR;
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_int_equal(a.size, sizeof(a));
	assert_string_equal(a.kind, "soft");
	assert_string_equal(a.node, "uverbs-soft0");
	assert_string_equal(a.board, "soft HCA");
	assert_string_equal(a.firmware, d.fw_ver);
	assert_int_equal(a.node_guid, be64toh(d.node_guid));
	check_guid(a.node_guid, a.node_guid_wire, a.node_guid_text);
	check_guid(a.image_guid, a.image_guid_wire, a.image_guid_text);
	assert_int_equal(a.node_type, IBV_NODE_CA);
	assert_int_equal(a.transport, IBV_TRANSPORT_IB);
	assert_int_equal(a.vendor_id, d.vendor_id);
	assert_int_equal(a.vectors, 1);
	assert_int_equal(a.cap_flags, d.device_cap_flags | caps);
	assert_int_equal(a.cap_flags_ex, d.device_cap_flags | caps |
			 IBV_DEVICE_RAW_SCATTER_FCS);
	assert_int_equal(a.max_qp, d.max_qp);
	assert_int_equal(a.max_read_total, d.max_res_rd_atom);
	assert_int_equal(a.max_mcast_attach_total, d.max_total_mcast_qp_attach);
	assert_int_equal(a.max_srq_sge, d.max_srq_sge);
	assert_int_equal(a.atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(a.ports_active, 2);
	assert_int_equal(rdmamsg_device_has(&a, "XRC"), 1);
	assert_int_equal(rdmamsg_device_has(&a, "BAD_PKEY_CNTR"), 1);
	assert_int_equal(rdmamsg_device_has(&a, "RAW_MULTI"), 0);
	assert_error(rdmamsg_device_has(&a, "NOSUCH"), -EINVAL, "NOSUCH");
	assert_int_equal(soft.close_device(c), 0);
	soft.free_device_list(list);
}

static void query__more_than_255_ports_ARE_COUNTED(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	ports_ex = 300;
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_int_equal(a.ports_ex, 300);
	assert_int_equal(a.ports, 2);
	/* of a driver that does not fill the longer field */
	ports_ex = -1;
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_int_equal(a.ports_ex, 2);
	no_extended = EOPNOTSUPP;
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_int_equal(a.ports_ex, 2);
}

static void query__kind_HAS_ITS_THRESHOLD(void **state)
{
	static const struct {
		uint32_t vendor, pieces_max;
		const char *kind;
	} rows[] = {
		{ 0, 131072, "soft" }, { 0xffffff, 131072, "soft-roce" },
		{ 0x15b3, 0, "roce" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdmamsg_device_attr a = {
			.size = sizeof(a), .pieces_max = 7,
		};

		vendor = rows[i].vendor;
		assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
		assert_string_equal(a.kind, rows[i].kind);
		assert_int_equal(a.pieces_max, rows[i].pieces_max);
	}
}

static void query__port_down_IS_NOT_ACTIVE(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	port_attr.state = IBV_PORT_DOWN;
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_int_equal(a.ports, 2);
	assert_int_equal(a.ports_active, 0);
}

/* Devices of a kind without a name of its own have a file of one line. */
static void query__board_IS_THE_LINE_OF_ITS_FILE(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	struct ibv_device **list = soft.get_device_list(NULL);
	char dir[] = "/tmp/board-XXXXXX", path[64];
	FILE *f;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/board_id", dir);
	f = fopen(path, "w");
	assert_true(f && fputs("MT_0000000013\n", f) >= 0 && !fclose(f));
	(void)snprintf(list[0]->ibdev_path, sizeof(list[0]->ibdev_path), "%s",
		       dir);
	vendor = 0x1234;
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_string_equal(a.board, "MT_0000000013");
	list[0]->ibdev_path[0] = 0;
	soft.free_device_list(list);
	assert_true(!unlink(path) && !rmdir(dir));
}

/*
 * If the program's struct is larger, further attributes are 0. If the program's
 * struct is smaller, the memory behind it does not change.
 */
static void query__other_sizes_ARE_KEPT_TO(void **state)
{
	struct {
		struct rdmamsg_device_attr a;
		uint64_t newer;
	} large = { .a.size = sizeof(large), .newer = 7 };
	struct rdmamsg_device_attr small = {
		.size = offsetof(struct rdmamsg_device_attr, ports_active),
		.ports_active = 77,
	};

	assert_int_equal(rdmamsg_device_query("soft0", &large.a), 0);
	assert_int_equal(large.newer, 0);
	assert_int_equal(rdmamsg_device_query("soft0", &small), 0);
	assert_int_equal(small.ports, 2);
	assert_int_equal(small.ports_active, 77);
}

static void query__soft_by_name_IS_BESIDE_THE_OTHERS(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	rdmamsg__verbs = &rdmamsg__verbs_system;
	assert_int_equal(rdmamsg_device_query("soft", &a), 0);
	assert_string_equal(a.name, "soft0");
	a.name[0] = 0;
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_string_equal(a.name, "soft0");
}

/* The port has neither keys nor a subnet manager, whatever its driver says. */
static void port__of_iwarp_HAS_NO_FIELDS_OF_INFINIBAND(void **state)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	iwarp = true;
	caps = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR;
	assert_int_equal(rdmamsg_port_query("soft0", 1, &a), 0);
	assert_int_equal(a.valid & (RDMAMSG_PORT_BAD_PKEYS |
				    RDMAMSG_PORT_BAD_QKEYS), 0);
}

/* Exits with the error, 0 for soft0, and 255 for another device. */
static int query_first(void)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	int ret;

	set_up(NULL);
	ret = rdmamsg_device_query(NULL, &a);
	return ret ? -ret : strcmp(a.name, "soft0") ? 255 : 0;
}

/* Another process asks, because a process reads its environment once. */
static int first_with(const char *device)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (device)
			(void)setenv("RDMAMSG_DEVICE", device, 1);
		(void)execl("/proc/self/exe", "query", "first", NULL);
		_exit(254);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The first device of the list is broken0, which cannot be opened. */
static void query__first_IS_WHAT_THE_ENVIRONMENT_SAYS(void **state)
{
	assert_int_equal(first_with(NULL), EACCES);
	assert_int_equal(first_with("hw"), EACCES);
	assert_int_equal(first_with("soft0"), 0);
	assert_int_equal(first_with("broken0"), EACCES);
	assert_int_equal(first_with("nosuch"), ENXIO);
}

/* ---- ports ------------------------------------------------------------- */

static void port__number_out_of_range_EINVAL(void **state)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	assert_error(rdmamsg_port_query("soft0", 0, &a), -EINVAL, "has 2");
	assert_error(rdmamsg_port_query("soft0", 3, &a), -EINVAL, "has 2");
	assert_error(rdmamsg_port_query("soft0", 257, &a), -EINVAL, "has 2");
	assert_error(rdmamsg_port_gids("soft0", 0, NULL, 0, 0), -EINVAL,
		     "port 0");
	assert_error(rdmamsg_port_pkeys("soft0", 3, NULL, 0), -EINVAL,
		     "port 3");
	assert_error(rdmamsg_port_gids("soft0", 1, NULL, 0, 1), -EINVAL,
		     "list");
	assert_error(rdmamsg_port_pkeys("soft0", 1, NULL, 1), -EINVAL, "list");
}

static void port__ethernet_MARKS_WHAT_APPLIES(void **state)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_port_query("soft0", 2, &a), 0);
	assert_int_equal(a.port, 2);
	assert_int_equal(a.valid, 0);
	assert_int_equal(a.state, IBV_PORT_ACTIVE);
	assert_true(rdmamsg_port_is_usable(&a));
	assert_int_equal(a.active_mtu, 4096);
	assert_int_equal(a.link_mbps, 100000);
	assert_int_equal(a.flags, IBV_QPF_GRH_REQUIRED);
	caps = IBV_DEVICE_BAD_PKEY_CNTR;
	assert_int_equal(rdmamsg_port_query("soft0", 2, &a), 0);
	assert_int_equal(a.valid, RDMAMSG_PORT_BAD_PKEYS);
	caps |= IBV_DEVICE_BAD_QKEY_CNTR;
	assert_int_equal(rdmamsg_port_query("soft0", 2, &a), 0);
	assert_int_equal(a.valid, RDMAMSG_PORT_BAD_PKEYS |
			 RDMAMSG_PORT_BAD_QKEYS);
}

static void port__infiniband_LID_NEEDS_A_SUBNET(void **state)
{
	const uint32_t link = RDMAMSG_PORT_SM | RDMAMSG_PORT_VLS |
			      RDMAMSG_PORT_PKEYS | RDMAMSG_PORT_WIDTH |
			      RDMAMSG_PORT_SUBNET_TIMEOUT |
			      RDMAMSG_PORT_PHYS_STATE | RDMAMSG_PORT_SPEED;
	const uint32_t lid = RDMAMSG_PORT_LID | RDMAMSG_PORT_LMC;
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	port_attr = (struct ibv_port_attr) {
		.state = IBV_PORT_INIT, .lid = 7, .lmc = 2, .max_vl_num = 5,
		.active_width = 2, .active_speed = 64,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.max_mtu = IBV_MTU_2048,
	};
	assert_int_equal(rdmamsg_port_query("soft0", 1, &a), 0);
	assert_int_equal(a.valid, link);
	assert_false(rdmamsg_port_is_usable(&a));
	assert_int_equal(a.vls, 15);
	assert_int_equal(a.max_mtu, 2048);
	assert_int_equal(a.active_mtu, 0);
	assert_int_equal(a.link_mbps, 200000);
	port_attr.state = IBV_PORT_ARMED;
	caps = IBV_DEVICE_INIT_TYPE;
	assert_int_equal(rdmamsg_port_query("soft0", 1, &a), 0);
	assert_int_equal(a.valid, link | lid | RDMAMSG_PORT_INIT_TYPE_REPLY);
	assert_int_equal(a.lid, 7);
	assert_false(rdmamsg_port_is_usable(&a));
	/* drivers older than Ethernet report an unspecified link layer */
	port_attr.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
	port_attr.state = IBV_PORT_ACTIVE_DEFER;
	assert_int_equal(rdmamsg_port_query("soft0", 1, &a), 0);
	assert_int_equal(a.valid, link | lid | RDMAMSG_PORT_INIT_TYPE_REPLY);
	assert_true(rdmamsg_port_is_usable(&a));
}

static void gids__loopback_HAS_ITS_DEVICE(void **state)
{
	struct rdmamsg_gid_attr list[64];
	int n = rdmamsg_port_gids("soft0", 1, list, sizeof(list[0]), 64);
	bool found = false;

	assert_true(n > 0 && n <= 64);
	for (int i = 0; i < n; i++) {
		assert_int_equal(list[i].size, sizeof(list[i]));
		assert_int_equal(list[i].type, IBV_GID_TYPE_ROCE_V2);
		if (strcmp(list[i].text, "::ffff:127.0.0.1"))
			continue;
		found = true;
		assert_string_equal(list[i].netdev, "lo");
		assert_int_equal(list[i].gid[12], 127);
	}
	assert_true(found);
	assert_int_equal(rdmamsg_port_gids("soft0", 1, NULL, 0, 0), n);
	memset(&list[1], 0x55, sizeof(list[1]));
	assert_int_equal(
		rdmamsg_port_gids("soft0", 1, list, sizeof(list[0]), 1), n);
	assert_int_equal(list[1].text[0], 0x55);
	empty_entry = (int)list[0].index;
	assert_int_equal(rdmamsg_port_gids("soft0", 1, NULL, 0, 0), n - 1);
}

static void pkeys__table_IS_IN_HOST_ORDER(void **state)
{
	uint16_t list[4] = { 1, 1, 1, 1 };

	port_attr = (struct ibv_port_attr) {
		.state = IBV_PORT_ACTIVE, .pkey_tbl_len = 3,
	};
	pkeys[0] = htobe16(0xffff);
	pkeys[2] = htobe16(0x7001);
	assert_int_equal(rdmamsg_port_pkeys("soft0", 1, list, 4), 3);
	assert_int_equal(list[0], 0xffff);
	assert_int_equal(list[1], 0);
	assert_int_equal(list[2], 0x7001);
	assert_int_equal(list[3], 1);
	list[1] = 1;
	assert_int_equal(rdmamsg_port_pkeys("soft0", 1, list, 1), 3);
	assert_int_equal(list[1], 1);
}

/* A table of which one entry cannot be read is no table with a gap. */
static void gids__one_entry_fails_THE_CALL_FAILS(void **state)
{
	struct rdmamsg_gid_attr list[64];
	const int n = rdmamsg_port_gids("soft0", 1, list, sizeof(list[0]), 64);

	assert_true(n > 0 && n <= 64);
	bad_entry = (int)list[n - 1].index;
	bad_error = EIO;
	assert_error(rdmamsg_port_gids("soft0", 1, list, sizeof(list[0]), 64),
		     -EIO, "of the GID table of soft0 port 1");
	assert_error(rdmamsg_port_gids("soft0", 1, NULL, 0, 0), -EIO,
		     "GID table");
	/* verbs report an empty entry so */
	bad_error = ENODATA;
	assert_int_equal(rdmamsg_port_gids("soft0", 1, NULL, 0, 0), n - 1);
}

static void pkeys__one_entry_fails_THE_CALL_FAILS(void **state)
{
	uint16_t list[4] = { 0 };

	port_attr = (struct ibv_port_attr) {
		.state = IBV_PORT_ACTIVE, .pkey_tbl_len = 3,
	};
	pkeys[0] = htobe16(0xffff);
	bad_entry = 1;
	bad_error = EPERM;
	assert_error(rdmamsg_port_pkeys("soft0", 2, list, 4), -EPERM,
		     "entry 1 of the P_Key table of soft0 port 2");
	/* the call reads as many as it has room for */
	assert_int_equal(rdmamsg_port_pkeys("soft0", 2, list, 1), 3);
	assert_int_equal(list[0], 0xffff);
	assert_int_equal(rdmamsg_port_pkeys("soft0", 2, NULL, 0), 3);
}

static void find_pkey__of_a_partition_FULL_MEMBERSHIP_FIRST(void **state)
{
	port_attr = (struct ibv_port_attr) {
		.state = IBV_PORT_ACTIVE, .pkey_tbl_len = 4,
	};
	pkeys[0] = htobe16(0x7fff);
	pkeys[1] = htobe16(0x0001);
	pkeys[3] = htobe16(0xffff);
	assert_int_equal(rdmamsg_port_find_pkey("soft0", 1, 0xffff), 3);
	assert_int_equal(rdmamsg_port_find_pkey("soft0", 1, 0x7fff), 3);
	assert_int_equal(rdmamsg_port_find_pkey("soft0", 1, 0x8001), 1);
	assert_error(rdmamsg_port_find_pkey("soft0", 1, 0x8002), -ENOENT,
		     "0x8002");
	/* an empty entry is in no partition */
	assert_error(rdmamsg_port_find_pkey("soft0", 1, 0x8000), -EINVAL,
		     "0x8000");
	assert_error(rdmamsg_port_find_pkey("soft0", 3, 0xffff), -EINVAL,
		     "port 3");
	bad_entry = 2;
	bad_error = EIO;
	assert_error(rdmamsg_port_find_pkey("soft0", 1, 0xffff), -EIO,
		     "entry 2");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(devices__one_cannot_be_opened_OTHERS_ARE_LISTED),
		TEST(devices__beside_the_soft_HCA_BOTH_ARE_LISTED),
		TEST(query__errors_DIFFER),
		TEST(query__bad_size_EINVAL),
		TEST(query__soft_HAS_WHAT_VERBS_REPORT),
		TEST(query__more_than_255_ports_ARE_COUNTED),
		TEST(query__kind_HAS_ITS_THRESHOLD),
		TEST(query__port_down_IS_NOT_ACTIVE),
		TEST(query__board_IS_THE_LINE_OF_ITS_FILE),
		TEST(query__other_sizes_ARE_KEPT_TO),
		TEST(query__soft_by_name_IS_BESIDE_THE_OTHERS),
		TEST(query__first_IS_WHAT_THE_ENVIRONMENT_SAYS),
		TEST(port__number_out_of_range_EINVAL),
		TEST(port__ethernet_MARKS_WHAT_APPLIES),
		TEST(port__infiniband_LID_NEEDS_A_SUBNET),
		TEST(port__of_iwarp_HAS_NO_FIELDS_OF_INFINIBAND),
		TEST(gids__loopback_HAS_ITS_DEVICE),
		TEST(pkeys__table_IS_IN_HOST_ORDER),
		TEST(gids__one_entry_fails_THE_CALL_FAILS),
		TEST(pkeys__one_entry_fails_THE_CALL_FAILS),
		TEST(find_pkey__of_a_partition_FULL_MEMBERSHIP_FIRST),
	};

	join_own_fabric("query");
	if (argc > 1)
		return query_first();
	(void)unsetenv("RDMAMSG_DEVICE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
