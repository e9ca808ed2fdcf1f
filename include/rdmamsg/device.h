/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, and the events of devices, ports and queue pairs. */
#ifndef RDMAMSG_DEVICE_H
#define RDMAMSG_DEVICE_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Attributes of a device. They are constant while the device exists. Limits are
 * upper bounds for all its users together. Values, flags and codes are those of
 * <infiniband/verbs.h>; rdmamsg_name() gives their names.
 */
struct rdmamsg_device_attr {
	size_t size;			/* set by the library */
	char name[64];
	char kind[16];			/* "soft-roce", "infiniband", ... */
	char firmware[64];
	uint64_t node_guid;		/* host byte order */
	uint32_t ports;
	uint32_t ports_active;
	uint32_t max_qp;
	uint32_t max_cq;
	uint32_t max_cqe;
	uint32_t max_mr;
	uint32_t max_qp_wr;
	uint32_t max_sge;
	uint32_t max_read_responder;
	uint32_t max_read_initiator;
	uint64_t max_mr_size;

	/* 0, or -errno: it cannot be opened, only name and node are set */
	int32_t error;
	int32_t node_type;		/* enum ibv_node_type */
	int32_t transport;		/* enum ibv_transport_type */
	uint32_t vectors;		/* completion vectors */
	char node[64];			/* in /dev/infiniband, "uverbs0" */
	char board[64];			/* "" if unknown */
	char node_guid_text[20];	/* "0002:c903:0000:0001" */
	char image_guid_text[20];
	uint8_t node_guid_wire[8];	/* network byte order */
	uint8_t image_guid_wire[8];
	uint64_t image_guid;		/* of the system, host byte order */
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_version;
	uint32_t cap_flags;		/* enum ibv_device_cap_flags */
	uint64_t cap_flags_ex;		/* these and newer ones */
	uint64_t page_sizes;		/* set of sizes, as bits */

	uint32_t atomic_cap;		/* enum ibv_atomic_cap */
	uint32_t max_pd;
	uint32_t max_sge_rd;		/* of an RDMA Read */
	uint32_t max_read_total;	/* reads served, all queue pairs */
	uint32_t max_mw;
	uint32_t max_ah;
	uint32_t max_srq;
	uint32_t max_srq_wr;
	uint32_t max_srq_sge;
	uint32_t max_pkeys;
	uint32_t max_mcast_groups;
	uint32_t max_mcast_attach;	/* queue pairs of one group */
	uint32_t max_mcast_attach_total;
	uint32_t ack_delay;		/* 4.096 us * 2^n */
	/* 0 on every device of today */
	uint32_t max_ee;
	uint32_t max_ee_rd_atom;
	uint32_t max_ee_init_rd_atom;
	uint32_t max_rdd;
	uint32_t max_raw_ipv6_qp;
	uint32_t max_raw_ethy_qp;
	uint32_t max_fmr;
	uint32_t max_map_per_fmr;

	/* the extended query; 0: the device lacks the feature */
	uint64_t odp_general;		/* enum ibv_odp_general_caps */
	uint32_t odp_rc;		/* enum ibv_odp_transport_cap_bits */
	uint32_t odp_uc;
	uint32_t odp_ud;
	uint32_t odp_xrc;
	uint64_t timestamp_mask;	/* of completions */
	uint64_t core_clock_khz;
	uint64_t max_dm_size;		/* device memory, bytes */
	uint32_t max_tso;		/* bytes */
	uint32_t tso_qps;		/* set of 1 << enum ibv_qp_type */
	uint32_t rss_qps;		/* likewise */
	uint32_t max_rwq_tables;	/* indirection tables */
	uint32_t max_rwq_table_size;
	uint32_t rx_hash_functions;	/* enum ibv_rx_hash_function_flags */
	uint64_t rx_hash_fields;	/* enum ibv_rx_hash_fields */
	uint32_t max_wq;		/* work queues to receive */
	uint32_t raw_packet_caps;	/* enum ibv_raw_packet_caps */
	uint32_t rate_min_kbps;		/* packet pacing */
	uint32_t rate_max_kbps;
	uint32_t rate_qps;		/* set of 1 << enum ibv_qp_type */
	uint32_t tm_max_header;		/* tag matching */
	uint32_t tm_max_tags;
	uint32_t tm_max_ops;
	uint32_t tm_max_sge;
	uint32_t tm_flags;		/* enum ibv_tm_cap_flags */
	uint32_t cq_moderation_count;
	uint32_t cq_moderation_usec;
	uint32_t pci_fetch_add;		/* enum ibv_pci_atomic_op_size */
	uint32_t pci_swap;
	uint32_t pci_compare_swap;

	uint32_t pieces_max;		/* default for endpoints; 0: none */
	/* 'ports', and those above 255, which no call reaches */
	uint32_t ports_ex;
};

/*
 * Fills up to max elements of 'size' bytes at list. Returns the number of
 * devices, the soft HCA included, which may be more than max. A device that
 * cannot be opened is in the list with its 'error'. -EACCES, -EMFILE, -ENOMEM.
 * -ENODEV: there is no device, because rdmamsg-soft-ctl(1) has removed the soft
 * HCA. Any thread.
 */
int rdmamsg_devices(struct rdmamsg_device_attr *list, size_t size, int max);

/*
 * The next four calls ask a device by its name. "hw" and "soft" mean the first
 * device of that sort. NULL means the device of RDMAMSG_DEVICE, else the first.
 * The calls open the device for a moment, so the answers are fresh. Any thread.
 *
 * -ENODEV: this host has no RDMA device; -ENXIO: there are devices, and none
 * has that name; -EACCES: no permission on the device node; -EINVAL, -EMFILE,
 * -ENOMEM, -EIO.
 */
int rdmamsg_device_query(const char *device, struct rdmamsg_device_attr *attr);

/* Bits of 'valid' of a port: the fields that have a meaning. */
enum rdmamsg_port_field {
	RDMAMSG_PORT_LID = 1u << 0,
	RDMAMSG_PORT_LMC = 1u << 1,
	RDMAMSG_PORT_SM = 1u << 2,		/* sm_lid and sm_sl */
	RDMAMSG_PORT_VLS = 1u << 3,
	RDMAMSG_PORT_SUBNET_TIMEOUT = 1u << 4,
	RDMAMSG_PORT_INIT_TYPE_REPLY = 1u << 5,
	RDMAMSG_PORT_PHYS_STATE = 1u << 6,
	RDMAMSG_PORT_BAD_PKEYS = 1u << 7,
	RDMAMSG_PORT_BAD_QKEYS = 1u << 8,
	RDMAMSG_PORT_PKEYS = 1u << 9,
	RDMAMSG_PORT_WIDTH = 1u << 10,
	RDMAMSG_PORT_SPEED = 1u << 11,
};

/*
 * Attributes of a port. State, LIDs, MTU in use, rate and counters change at
 * any time. Fields without a bit in 'valid' have what the device reports, which
 * means nothing on a port of that kind or in that state.
 */
struct rdmamsg_port_attr {
	size_t size;
	uint32_t port;
	uint32_t valid;			/* enum rdmamsg_port_field */
	uint32_t state;			/* enum ibv_port_state */
	uint32_t link_layer;		/* IBV_LINK_LAYER_* */
	uint32_t max_mtu;		/* bytes */
	uint32_t active_mtu;		/* bytes */
	uint32_t max_msg_size;
	uint32_t link_mbps;		/* width * speed, Mb/s; 0: unknown */
	uint32_t gid_count;		/* length of the table */
	uint32_t pkey_count;		/* length of the table */
	uint32_t cap_flags;		/* enum ibv_port_cap_flags */
	uint32_t cap_flags2;		/* enum ibv_port_cap_flags2 */
	uint32_t flags;			/* IBV_QPF_GRH_REQUIRED */
	uint32_t lid;
	uint32_t lmc;			/* 1 << lmc LIDs */
	uint32_t sm_lid;
	uint32_t sm_sl;
	uint32_t max_vl_num;		/* code */
	uint32_t vls;			/* virtual lanes of that code */
	uint32_t subnet_timeout;	/* 4.096 us * 2^n */
	uint32_t init_type_reply;
	uint32_t phys_state;
	uint32_t active_width;		/* code */
	uint32_t active_speed;		/* code */
	uint32_t bad_pkeys;
	uint32_t bad_qkeys;
};

/* -EINVAL: the device has no such port. */
int rdmamsg_port_query(const char *device, uint32_t port,
		       struct rdmamsg_port_attr *attr);
/*
 * Returns 1 if the port has the capability of that name, "SM" as in
 * IBV_PORT_SM, 0 if not. -EINVAL: there is no such name.
 */
int rdmamsg_port_has(const struct rdmamsg_port_attr *attr, const char *cap);
/* Returns 1 if messages pass: the port is active, or briefly interrupted. */
int rdmamsg_port_is_usable(const struct rdmamsg_port_attr *attr);

/* An entry of a GID table. */
struct rdmamsg_gid_attr {
	size_t size;			/* set by the library */
	uint32_t index;			/* in the table, below gid_count */
	uint32_t type;			/* enum ibv_gid_type */
	uint8_t gid[16];
	char text[48];			/* as an IPv6 address */
	uint32_t ifindex;		/* 0: no network device */
	char netdev[16];		/* "" if there is none */
};

/*
 * Fills up to max elements of 'size' bytes at list with the entries of the
 * port's GID table that are not empty. Returns their number, which may be more
 * than max. If one entry cannot be read, the call fails with the error of that
 * entry, and the elements at list mean nothing.
 */
int rdmamsg_port_gids(const char *device, uint32_t port,
		      struct rdmamsg_gid_attr *list, size_t size, int max);
/*
 * Fills up to max elements with the port's P_Key table, in host byte order.
 * Returns the length of the table. An element of 0 is empty. Bit 15 means full
 * membership. If one of these entries cannot be read, the call fails with the
 * error of that entry, and the elements at list mean nothing.
 */
int rdmamsg_port_pkeys(const char *device, uint32_t port, uint16_t *list,
		       int max);
/*
 * Returns the index of the entry with this partition, the lower 15 bits of
 * 'pkey' in host byte order. If the port is in it with limited and with full
 * membership, returns that of full membership. -ENOENT: the port is not in the
 * partition; -EINVAL: the partition is 0, which no port has.
 */
int rdmamsg_port_find_pkey(const char *device, uint32_t port, uint16_t pkey);
/* Writes the GID in the form of an IPv6 address. */
void rdmamsg_gid_text(const uint8_t gid[16], char text[48]);
/*
 * The reverse: reads an IPv6 address, or an IPv4 address as RoCE maps it.
 * -EINVAL: the text is neither, and gid does not change.
 */
int rdmamsg_gid_parse(const char *text, uint8_t gid[16]);

/*
 * Returns 1 if the device has the capability of that name, "XRC" as in
 * IBV_DEVICE_XRC, 0 if not. -EINVAL: there is no such name.
 */
int rdmamsg_device_has(const struct rdmamsg_device_attr *attr,
		       const char *cap);

/* ---- capabilities ----------------------------------------------------- */

/* Abilities of the library, which depend on the device. */
enum rdmamsg_cap_id {
	RDMAMSG_CAP_INLINE,		/* value: bytes */
	RDMAMSG_CAP_IMMEDIATE,		/* immediate data */
	RDMAMSG_CAP_WRITE,
	RDMAMSG_CAP_READ,
	RDMAMSG_CAP_ATOMICS,		/* value: enum rdmamsg_atomic */
	RDMAMSG_CAP_WINDOWS,		/* memory windows of type 2 */
	RDMAMSG_CAP_INVALIDATE,		/* of a window by the peer */
	RDMAMSG_CAP_SRQ,		/* value: receives of one queue */
	RDMAMSG_CAP_UC,
	RDMAMSG_CAP_UD,
	RDMAMSG_CAP_XRC,
	RDMAMSG_CAP_RAW_PACKET,
	RDMAMSG_CAP_MULTICAST,		/* value: groups */
	RDMAMSG_CAP_BLOCK_LOOPBACK,	/* of own multicast datagrams */
	RDMAMSG_CAP_ODP,		/* on-demand paging */
	RDMAMSG_CAP_DMABUF,
	RDMAMSG_CAP_HUGE_PAGES,		/* value: bytes of a page */
	RDMAMSG_CAP_FORK,		/* registered memory survives fork() */
	RDMAMSG_CAP_CQ_RESIZE,
	RDMAMSG_CAP_SEND_OPS,		/* ibv_wr_start() */
	RDMAMSG_CAP_RSS,		/* value: queues of one table */
	RDMAMSG_CAP_TSO,		/* value: bytes of one send */
	RDMAMSG_CAP_APM,		/* path migration, by the program */
	RDMAMSG_CAP_EP_APM,		/* path migration of endpoints */
	RDMAMSG_CAP_DC,			/* dynamically connected transport */
	/* layouts; value: blocks of this side in a request */
	RDMAMSG_CAP_UMR,
	/* masked, by fields, or of other sizes; value: bytes of the largest */
	RDMAMSG_CAP_EXT_ATOMICS,
	RDMAMSG_CAP_CHAINS,		/* cross-channel; value: 1 if native */
	RDMAMSG_CAPS			/* number of abilities */
};

enum rdmamsg_cap_how {
	RDMAMSG_CAP_ABSENT,
	RDMAMSG_CAP_SOFTWARE,		/* the library or the kernel does it */
	RDMAMSG_CAP_NATIVE		/* the device does it */
};

/*
 * Limits of some abilities. They are upper bounds: an option, or the peer, can
 * mean less. 0: none, or the ability is absent.
 */
struct rdmamsg_cap_dc {
	/* reads and atomics of one initiator, and served for one */
	uint32_t initiator_depth;
	uint32_t responder_resources;
	uint32_t violations;	/* 1: rdmamsg_dc_target_arm() works */
};

struct rdmamsg_cap_umr {
	uint32_t parts;		/* of a layout */
	uint32_t depth;		/* levels of layouts in layouts */
	uint32_t dims;		/* of a grid */
	/* native: */
	uint32_t entries;	/* blocks in a request that defines a key */
	uint32_t blocks;	/* of a layout without a grid or rounds */
	uint32_t max_step;	/* bytes of blocks, and from one to the next */
};

struct rdmamsg_cap_ext_atomics {
	uint32_t sizes;		/* of operands: 4 | 8 | 16 | 32 */
	uint32_t max_field;	/* bytes */
	uint32_t unit;		/* bytes that are written back at least */
	uint32_t max_inline;	/* bytes of an operand in a request; native */
	uint32_t swapped;	/* 1: answers in the other byte order */
};

struct rdmamsg_cap_chains {
	uint32_t types;		/* set of 1 << enum rdmamsg_calc_type */
	uint32_t sizes;		/* bytes of an element, as bits */
	/* of each type: set of 1 << enum rdmamsg_calc_op */
	uint32_t int_ops;
	uint32_t uint_ops;
	uint32_t double_ops;
};

struct rdmamsg_device_cap_attr {
	size_t size;			/* set by the library */
	uint32_t id;			/* enum rdmamsg_cap_id */
	uint32_t how;			/* enum rdmamsg_cap_how */
	/* 1: the answer comes from trying; 0: the reason says from where */
	uint32_t tried;
	char name[28];			/* "remote-invalidate" */
	uint64_t value;			/* see enum rdmamsg_cap_id; else 0 */
	char reason[256];
	union {				/* by id */
		struct rdmamsg_cap_dc dc;
		struct rdmamsg_cap_umr umr;
		struct rdmamsg_cap_ext_atomics ext_atomics;
		struct rdmamsg_cap_chains chains;
		uint32_t room[16];
	} limits;
};

/*
 * Fills up to max elements of 'size' bytes at list with the abilities of the
 * library on one device, which is named as above. Returns their number, which
 * may be more than max. The call tries each ability with objects of its own,
 * which it destroys: queue pairs connected to each other, regions, windows. So
 * it takes some ms, and 5 s if the device does not deliver: not in a callback,
 * because the loop stands still. An attempt that fails makes the ability
 * absent, and the reason says why. Errors as above. Any thread.
 */
int rdmamsg_device_caps(const char *device,
			struct rdmamsg_device_cap_attr *list, size_t size,
			int max);
/* Tries one ability only. -EINVAL: there is no such id. */
int rdmamsg_device_cap_query(const char *device, enum rdmamsg_cap_id id,
			     struct rdmamsg_device_cap_attr *cap);

/* The bytes of an enum ibv_mtu, or 0 if it has no such value. */
#define RDMAMSG_MTU_BYTES(code) \
	((code) >= 1u && (code) <= 5u ? 128u << (code) : 0u)
/* The largest enum ibv_mtu of at most so many bytes, or 0. */
#define RDMAMSG_MTU_CODE(bytes) \
	(((bytes) >= 256u) + ((bytes) >= 512u) + ((bytes) >= 1024u) + \
	 ((bytes) >= 2048u) + ((bytes) >= 4096u) + 0u)
/* 4.096 us * 2^n in nanoseconds: ack_timeout, ack_delay, subnet_timeout */
#define RDMAMSG_TIMEOUT_NS(n)	((uint64_t)4096 << (n))

/* An event of a device, of a port or of an endpoint's queue pair. */
struct rdmamsg_event {
	size_t size;
	int type;		/* enum ibv_event_type, -1: device is gone */
	const char *name;	/* static text */
	const char *device;	/* valid during the callback */
	uint32_t port;		/* 0 if not about a port */
	struct rdmamsg_ep *ep;	/* NULL if not about an endpoint */
	/*
	 * The program's queue pair, or one that uses the completion queue,
	 * shared receive queue or work queue that the event is about; else
	 * NULL.
	 */
	struct rdmamsg_qp *qp;
};

/*
 * Opens a device in the context, so that the context's on_event gets the events
 * of the device without an endpoint there. The device stays open until it is
 * removed or the context closes. 'device' is a name of rdmamsg_devices(). "hw",
 * "soft" and NULL mean a device with an active port. Does nothing if the
 * context watches the device already. -ENODEV, -ENXIO, as above; -EACCES,
 * -EMFILE, -ENOMEM; -EOPNOTSUPP: the library does not support the device.
 */
int rdmamsg_device_watch(struct rdmamsg *ctx, const char *device);

/* Parts of the attributes of a port. */
enum rdmamsg_port_part {
	/* what the port can do: table lengths, capabilities, limits */
	RDMAMSG_PORT_STATIC = 1u << 0,
	/* what the subnet manager or the link changes, and counters */
	RDMAMSG_PORT_DYNAMIC = 1u << 1,
};

/*
 * Like rdmamsg_device_query() and rdmamsg_port_query(), without opening the
 * device: these calls watch it as rdmamsg_device_watch() does, and the process
 * queries a device and a port once. An event of the port discards its dynamic
 * part, and the next call that asks for this part queries the port. Ethernet,
 * iWARP, and devices without PORT_ACTIVE_EVENT do not report each change, so
 * such a call always queries their ports. Without
 * RDMAMSG_PORT_DYNAMIC in 'parts', the dynamic fields are as old as the last
 * query. Errors of both calls; -EINVAL: wrong parts.
 */
int rdmamsg_device_cached(struct rdmamsg *ctx, const char *device,
			  struct rdmamsg_device_attr *attr);
int rdmamsg_port_cached(struct rdmamsg *ctx, const char *device, uint32_t port,
			uint32_t parts, struct rdmamsg_port_attr *attr);
/* Discards all of these values, for counters, which no event tells of. */
int rdmamsg_device_refresh(struct rdmamsg *ctx, const char *device);

#ifdef __cplusplus
}
#endif

#endif
