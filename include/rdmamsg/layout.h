/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts: regions composed of many blocks of other regions. */
#ifndef RDMAMSG_LAYOUT_H
#define RDMAMSG_LAYOUT_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_layout;
struct rdmamsg_region;		/* <rdmamsg/rma.h> */
struct rdmamsg_key;		/* <rdmamsg/rma.h> */

#define RDMAMSG_LAYOUT_DIMS	3
#define RDMAMSG_LAYOUT_DEPTH	8	/* levels of layouts in layouts */
#define RDMAMSG_LAYOUT_PARTS	16384	/* with those of inner layouts */

struct rdmamsg_layout_options {
	size_t size;
	/* RDMAMSG_ACCESS_READ, _WRITE, _ATOMIC, _LOCAL_WRITE; 0: a source */
	uint32_t access;
	uint32_t max_parts;	/* capacity; RDMAMSG_LAYOUT_PARTS */
};

/*
 * Creates a layout without parts. Writes it to *ret. rdmamsg_close() destroys
 * layouts that are left. -EINVAL, -ENOMEM.
 */
int rdmamsg_layout_create(struct rdmamsg *ctx,
			  const struct rdmamsg_layout_options *opts,
			  struct rdmamsg_layout **ret);

/*
 * A part of a layout is a block of memory, or a grid of equal blocks. Units are
 * bytes. The region can be that of another layout, see
 * rdmamsg_layout_region().
 */
struct rdmamsg_layout_part {
	struct rdmamsg_region *region;
	uint64_t offset;	/* of the first block in the region */
	uint64_t len;		/* of each block */
	uint64_t step;		/* from the part in a round to the next round */
	uint32_t dims;		/* of the grid: 0 to RDMAMSG_LAYOUT_DIMS */
	/* of each dimension: blocks, and from one to the next */
	uint64_t count[RDMAMSG_LAYOUT_DIMS];	/* the last varies fastest */
	uint64_t stride[RDMAMSG_LAYOUT_DIMS];
};

/*
 * Defines the layout, or defines it anew. The bytes of the layout are those of
 * the parts, one part after the other, and all that 'rounds' times. In each
 * round a part begins 'step' bytes later. So a list has one round, and rounds
 * of several parts interleave them. The call takes no memory but what the parts
 * need. Afterwards the regions cannot be revoked or destroyed, and inner
 * layouts cannot be changed, until the layout is defined anew or invalidated.
 * Earlier keys are revoked, as by rdmamsg_region_revoke().
 *
 * -EINVAL: a part is wrong; rdmamsg_error() tells the part. -EACCES: a region
 * does not have the layout's access. -ENOBUFS: more than max_parts. -EBUSY:
 * operations of this program or another layout use the layout. -ENOMEM. On
 * failure the layout is as before. Another error: as in
 * rdmamsg_layout_invalidate(), and the layout has the new parts.
 */
int rdmamsg_layout_define(struct rdmamsg_layout *layout,
			  const struct rdmamsg_layout_part *parts,
			  uint32_t count, uint64_t rounds);

/*
 * Makes the layout one without parts, and revokes its keys. If a peer uses an
 * earlier key, it gets an access error, which ends the connection. -EBUSY as
 * above. Another error: the device did not end a registration, and peers may
 * still reach the memory.
 */
int rdmamsg_layout_invalidate(struct rdmamsg_layout *layout);

/* Invalidates and frees the layout. On failure it is not freed. May be NULL. */
int rdmamsg_layout_destroy(struct rdmamsg_layout *layout);

struct rdmamsg_layout_attr {
	size_t size;
	uint64_t id;		/* number in error texts */
	uint64_t len;		/* bytes; 0: not defined */
	uint64_t blocks;	/* pieces of memory; counted up to 65536 */
	uint32_t parts;		/* with those of inner layouts */
	uint32_t max_parts;	/* capacity */
	uint32_t depth;		/* 1: no inner layouts */
	uint32_t max_depth;
	uint32_t regions;
	uint32_t operations;	/* of this program, on the layout */
	uint32_t outer;		/* layouts that contain this one */
	uint32_t access;
	uint64_t key_len;	/* most of rdmamsg_layout_get_key() */
};

int rdmamsg_layout_query(const struct rdmamsg_layout *layout,
			 struct rdmamsg_layout_attr *attr);

/*
 * Returns the region that stands for the layout, valid as long as the layout.
 * The region works in gather entries of one-sided operations, and as a part of
 * other layouts. In a gather entry, 'data' is the offset in the layout. Calls
 * that register, revoke, bind or destroy a region refuse it with -EINVAL.
 */
struct rdmamsg_region *rdmamsg_layout_region(struct rdmamsg_layout *layout);

/*
 * Registers the layout's regions like rdmamsg_region_register(). If the device
 * has layouts, it defines a key for this program as well, and the call does not
 * wait for it: operations take more requests until then.
 */
int rdmamsg_layout_register(struct rdmamsg_layout *layout,
			    const struct rdmamsg_ep *ep);

/*
 * For on_incoming: receives the message that the peer has announced in the
 * layout, from 'offset' on. The library reads it straight into the blocks, and
 * on_message follows with a message without data: rdmamsg_msg_data() is NULL.
 * The layout is in use until then, or until on_closed. Ignores dst of
 * on_incoming, and registers the layout's regions. The program can return an
 * error to refuse the message, or receive it elsewhere. -EINVAL: ep is not in
 * on_incoming, is in a chain, or belongs to another context; -EACCES: a layout
 * without RDMAMSG_ACCESS_LOCAL_WRITE; -ERANGE: outside of the layout;
 * -EOPNOTSUPP: a dmabuf, and messages have a CRC; -EPERM, -ENOMEM.
 */
int rdmamsg_layout_recv(struct rdmamsg_ep *ep, struct rdmamsg_layout *layout,
			uint64_t offset);

/*
 * Copies between the layout and memory in one piece, for example a received
 * message that was not announced. -ERANGE: outside of the layout; -EOPNOTSUPP:
 * a dmabuf; -EACCES: into a layout without RDMAMSG_ACCESS_LOCAL_WRITE.
 */
int rdmamsg_layout_copy_in(struct rdmamsg_layout *layout, uint64_t offset,
			   const void *src, size_t len);
int rdmamsg_layout_copy_out(const struct rdmamsg_layout *layout,
			    uint64_t offset, void *dst, size_t len);

/*
 * Registers the layout for peers, and writes the key to buf, which has 'room'
 * bytes, at least key_len of rdmamsg_layout_query(). The device may need time
 * to define the key, so the call ends with on_complete of the endpoint, before
 * on_closed. Until then buf and ret_len are the library's. The cookie is not
 * NULL. The layout may be changed or destroyed meanwhile.
 *
 * status 0: *ret_len bytes are the key, and the program sends them to the peer.
 * In software the call registers, of each region, the memory from the layout's
 * first to its last byte. Until the layout is changed, invalidated or
 * destroyed, the key serves every peer that knows it and is connected through
 * this device in this protection domain. -ECANCELED: the layout has changed, or
 * the connection or the device has ended. Other values: the device has failed.
 *
 * -EMSGSIZE: not enough room. -EINVAL, -EPERM, -ENOMEM, -ENOTCONN.
 */
int rdmamsg_layout_get_key(struct rdmamsg_layout *layout, struct rdmamsg_ep *ep,
			   void *buf, size_t room, size_t *ret_len,
			   void *cookie);

/*
 * Makes a key of the bytes that a peer's rdmamsg_layout_get_key() has written.
 * An ordinary key, which native layouts have, stays as it is.
 * The library checks and keeps the description, and the caller's bytes are free
 * on return. Writes and reads take the key in this context, and so do atomic
 * operations on bytes of one block. The call ignores bytes after the key.
 * -EPROTO: the bytes are no key, or their description is wrong; -EMFILE,
 * -ENOMEM.
 */
int rdmamsg_layout_import(struct rdmamsg *ctx, const void *buf, size_t len,
			  struct rdmamsg_key *ret);

/*
 * Forgets an imported key. rdmamsg_close() forgets all. -EINVAL: no imported
 * key of this context; -EBUSY: an operation uses it.
 */
int rdmamsg_layout_forget(struct rdmamsg *ctx, const struct rdmamsg_key *key);

#ifdef __cplusplus
}
#endif

#endif
