/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts of this program, and imported layouts of peers. */
#ifndef RDMAMSG_LIB_LAYOUT_H
#define RDMAMSG_LIB_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/rma.h>

#include "memory/region.h"
#include "wire/layout.h"

struct layout_import;
struct umr_job;

/* A defined layout. Its sources begin with the first byte that it touches. */
struct layout_map {
	struct layout desc;
	struct rdmamsg_region **regions;	/* of each source */
	/*
	 * Registrations for peers: the layout itself if the device has layouts,
	 * else the memory that the layout touches.
	 */
	struct rdmamsg_region native;
	struct rdmamsg_region *shadows;
	/* registrations for this program, if the device has layouts */
	struct rdmamsg_region own;
	bool gathers;			/* a device has none, or few blocks */
	struct list jobs;		/* struct layout_job */
	struct rdmamsg_layout **inner;
	uint32_t inners;
};

/* A device defines the key of a layout. Until then the layout has none. */
struct layout_job {
	struct list node;		/* of the map */
	struct layout_map *map;
	struct dev *dev;
	struct umr_job *umr;
	bool own;			/* for map->own, else map->native */
	struct list asks;		/* struct layout_ask that wait for it */
};

struct rdmamsg_layout {
	struct rdmamsg_region region;	/* first: stands for the layout */
	uint32_t max_parts;
	uint32_t outer;			/* layouts that contain this one */
	struct layout_map *map;		/* NULL: not defined */
};

int rdmamsg__layout_ok(const struct rdmamsg_layout *layout);
/* -ERANGE: not in the layout. -EINVAL: the layout is not defined. */
int rdmamsg__layout_range(const struct rdmamsg_layout *layout, uint64_t offset,
			  uint64_t len);
/* -EACCES: the layout lacks RDMAMSG_ACCESS_LOCAL_WRITE. */
int rdmamsg__layout_writable(const struct rdmamsg_layout *layout);
/* Returns true if the layout contains a dmabuf. */
bool rdmamsg__layout_no_cpu(const struct rdmamsg_layout *layout);
/* Frees the layout as the context closes. */
void rdmamsg__layout_free(struct rdmamsg_layout *layout);

/* layout_reg.c */
/* Returns 0 if all regions are registered with dev. -EPERM, -EINVAL */
int rdmamsg__layout_ready(const struct rdmamsg_layout *layout,
			  const struct dev *dev);
/*
 * Registers the regions. If the device has layouts, the layout gets a key as
 * well, now or later. Both ways reach the same bytes.
 */
int rdmamsg__layout_register(const struct rdmamsg_layout *layout,
			     struct dev *dev);
/*
 * Registers for peers: map->native, or all of map->shadows. *ret: the device
 * will have defined the key when this job ends; NULL: the layout has its key.
 */
int rdmamsg__layout_share(struct rdmamsg_layout *layout, struct dev *dev,
			  struct layout_job **ret);
/* Returns true if peers can reach the layout through dev. */
bool rdmamsg__layout_exported(const struct rdmamsg_layout *layout,
			      const struct dev *dev);
/*
 * Writes the key of an exported layout, of at most rdmamsg__layout_bytes().
 * Returns its length.
 */
size_t rdmamsg__layout_key_bytes(const struct rdmamsg_layout *layout,
				 const struct dev *dev, uint8_t *out);
/* Fills in a gather entry of at most len bytes. The layout is ready. */
void rdmamsg__layout_sge(const struct rdmamsg_layout *layout,
			 const struct dev *dev, uint64_t at, uint32_t len,
			 struct ibv_sge *ret);
/* Ends all registrations and jobs. Returns the first error. */
int rdmamsg__layout_withdraw(struct layout_map *m);

/* layout_import.c */
/*
 * Returns true if key is an imported layout of ctx, and sets *ret and the
 * fields of 'plain' that are not about the device.
 */
bool rdmamsg__layout_find(const struct rdmamsg *ctx,
			  const struct rdmamsg_key *key,
			  struct layout_import **ret, struct proto_key *plain);
/* Reads the fixed part of such a key. Returns false if it is another. */
bool rdmamsg__layout_key(const struct rdmamsg_key *key, struct proto_key *ret);
void rdmamsg__layout_hold(struct layout_import *i);
void rdmamsg__layout_rele(struct layout_import *i);
/* Returns the bytes that one request can reach from 'at' on. */
uint64_t rdmamsg__layout_far(const struct layout_import *i, uint64_t at,
			     uint64_t *ret_addr, uint32_t *ret_rkey);
/*
 * Makes the key of a layout in software that of the block which has the operand
 * of an atomic operation. -EINVAL: it is in several blocks. The key of a layout
 * that the device has is an ordinary one, and only the peer's device knows its
 * blocks.
 */
int rdmamsg__layout_operand(const struct layout_import *i, uint64_t offset,
			    uint32_t bytes, struct proto_key *key);
/* Returns true if the 8 bytes at 'at' are one block at the address 'word'. */
bool rdmamsg__layout_has_word(const struct layout_import *i, uint64_t at,
			      uint64_t word, uint32_t rkey);
void rdmamsg__imports_free(struct rdmamsg *ctx);

#endif
