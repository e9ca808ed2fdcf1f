/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-doctor: findings, the facts that checks judge, and the checks. */
#ifndef RDMAMSG_SAMPLES_DOCTOR_H
#define RDMAMSG_SAMPLES_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdmamsg_ep;

#define DOCTOR_PORT	"7482"
#define FINDING_MAX	256
#define REPORT_MAX	60000		/* bytes; below max_copy of endpoints */
#define NETNS_MODE	"/sys/module/ib_core/parameters/netns_mode"

/* These are the exit statuses as well. */
enum verdict { OK, WARNING, WRONG };

struct options {
	const char *target;		/* HOST[:PORT]; NULL: this host only */
	const char *root;		/* "" is the system itself */
	const char *address, *port;	/* --serve */
	bool serve, quiet, json;
};

extern struct options options;

/* ---- report.c: findings ----------------------------------------------- */

struct finding {
	struct finding *next;
	const char *check;		/* static text */
	char subject[64];
	enum verdict verdict;
	char text[FINDING_MAX];
	char remedy[FINDING_MAX];	/* "": none is needed or known */
};

/* Adds a finding of the check that runs. Exits if there is no memory. */
struct finding *found(const char *subject, enum verdict verdict,
		      const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Sets the remedy of a finding. */
void mend(struct finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Findings are of the check of this name from now on. */
void report_check(const char *name);
void report_clear(void);
const struct finding *report_findings(void);
enum verdict report_worst(void);
/* The first step to the peer that has failed, or NULL. */
const struct finding *report_failed_step(void);
const char *verdict_name(enum verdict verdict);
/* NULL: the findings are not about a peer. */
void report_print(const char *target);

/* ---- root.c: files below the root ------------------------------------- */

/*
 * Reads a file whose path printf makes, and ends the text with a NUL. Returns
 * its length, or -errno. Longer files are cut.
 */
int root_read(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same without the new line at the end; "" if there is no such file. */
void root_line(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Reads a whole file. The caller frees it. NULL: there is none. */
char *root_slurp(const char *path, size_t *ret_len);
bool root_has(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Returns 0 if the file can be opened for reading and writing, or -errno. */
int root_open(const char *path);
/* The target of a link, "" if there is none. */
void root_link(char *buf, size_t size, const char *path);
/* Calls fn for each name in a directory, sorted. Returns their number. */
int root_each(const char *dir, void (*fn)(void *arg, const char *name),
	      void *arg);

/* ---- facts.c ---------------------------------------------------------- */

struct gid {
	uint8_t raw[16];
	char text[48];
	uint32_t type;			/* 0 IB, 1 RoCE v1, 2 RoCE v2 */
	char netdev[16];
};

struct port {
	const struct device *device;
	uint32_t number, state, phys_state;
	bool ethernet;
	uint32_t active_mtu, max_mtu;	/* bytes; 0: unknown */
	uint32_t link_mbps;		/* 0: unknown */
	char netdev[16];		/* "" if there is none */
	struct gid *gids;
	uint32_t ngids;
	uint16_t *pkeys;		/* of an InfiniBand port */
	uint32_t npkeys;
	/* "", or the error of reading the table */
	char gids_error[FINDING_MAX], pkeys_error[FINDING_MAX];
	struct port *next;		/* of the device */
};

struct device {
	char name[64];
	char kind[16];			/* "" if unknown */
	char firmware[64], board[64];
	char node[64];			/* "uverbs0" */
	int error;			/* -errno: it cannot be opened */
	char error_text[FINDING_MAX];
	uint64_t odp;			/* general capabilities */
	bool soft;			/* the soft HCA */
	bool iwarp;
	bool attributes;		/* the library has told them */
	struct port *ports;
	struct device *next;
};

/* Facts about devices: from the library, or from /sys of another root. */
struct facts {
	struct device *devices;
	int error;			/* -errno: there is no list */
	char error_text[FINDING_MAX];
};

void facts_read(struct facts *f);
void facts_free(struct facts *f);
/* Returns true if RDMAMSG_DEVICE asks for the soft HCA, which opens. */
bool facts_soft_suffices(const struct facts *f);
/* The first device of the kernel, or NULL. */
const struct device *facts_kernel_device(const struct facts *f);
/*
 * Returns true if /sys has a device that is not the soft HCA, which programs
 * under rdmamsg-soft(1) find there.
 */
bool facts_kernel_lists_any(const struct facts *f);
/*
 * Returns true if RDMAMSG_DEVICE=hw means the device. Under rdmamsg-soft(1) the
 * soft HCA is such a device.
 */
bool device_is_hw(const struct device *d);
bool facts_has(const struct facts *f, const char *device);
/* "rxe0 port 1", in a buffer that the next call uses again */
const char *port_subject(const struct port *p);
bool port_is_active(const struct port *p);
/* Returns true if the port's GIDs are the addresses of its network device. */
bool port_is_roce(const struct port *p);
bool gid_is_link_local(const struct gid *g);

#define for_each_device(d, f) \
	for (const struct device *d = (f)->devices; d; d = d->next)
#define for_each_port(p, d) \
	for (const struct port *p = (d)->ports; p; p = p->next)

/* ---- the checks, by subject ------------------------------------------- */

typedef void check_fn(const struct facts *f);

/* host.c */
check_fn check_modules, check_nodes, check_container, check_netns,
	 check_cgroup, check_hugepages, check_iommu, check_yama;
/* Bit of a capability in CapEff of this process. */
bool host_has_cap(int cap);
bool host_in_container(void);

/* device.c */
check_fn check_devices, check_provider, check_firmware, check_ports,
	 check_counters, check_pkeys, check_odp;
/* Compares numbers between dots: "16.4.1" is older than "16.31". */
bool firmware_is_older(const char *a, const char *b);
/*
 * Sets the remedy of a device with older firmware. 'where' is "" or "there: ".
 * Nobody but the vendor knows the image.
 */
void mend_firmware(struct finding *f, const char *where, const char *device);
/* Sets the remedy of a port that is not active. */
void mend_port(struct finding *f, const struct port *p);
/* Sets the remedy of a port whose table "gid" or "pkey" cannot be read. */
void mend_table(struct finding *f, const struct port *p, const char *table);

/* net.c */
check_fn check_links, check_gids, check_roce, check_mtu;
/* Prints a network device without RDMA that could have Soft-RoCE, or "". */
void net_candidate(const struct facts *f, char *buf, size_t size);
bool net_is_mine(const uint8_t gid[16]);

/* process.c */
check_fn check_memlock, check_files, check_processes, check_space,
	 check_libraries, check_environment;

/* checks.c: all checks of this host, in order */
void run_checks(struct facts *f);
const char *check_what(const char *name);
bool check_is_step(const char *name);

/* peer.c: the steps to a peer, each a finding */
void examine_peer(const struct facts *f, const char *target);
/* serve.c: returns an exit status */
int serve(void);

/* message.c: the report as text, for a peer */
enum doctor_tag { TAG_REPORT = 1, TAG_ECHO, TAG_BULK };

/* The settings of one side of a connection. */
struct used {
	char library[32];
	char device[64], kind[16], firmware[64], board[64], netdev[16];
	uint32_t port;
	uint32_t active_mtu;		/* bytes; 0: unknown */
	uint32_t gid_type;
	bool ethernet;
};

void used_find(const struct facts *f, const struct rdmamsg_ep *ep,
	       struct used *ret);
/* Writes the findings and what is used. Returns the length. */
size_t message_write(char *buf, size_t size, const struct used *used);
/*
 * Reads a peer's report, and adds its findings that are not ok. Returns false
 * if the text is no report.
 */
bool message_read(const char *text, size_t len, struct used *used);

#endif
