/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts: regions composed of many blocks of other regions. */
#ifndef RDMAMSG_CXX_LAYOUT_HPP
#define RDMAMSG_CXX_LAYOUT_HPP

#include <vector>

#include <rdmamsg/layout.h>
#include <rdmamsg/cxx/owned.hpp>
#include <rdmamsg/cxx/rma.hpp>

namespace rmsg {

/* A block of a region, or a grid of equal blocks. */
class layout_part : public rdmamsg_layout_part {
public:
	layout_part(rdmamsg_region *of, std::uint64_t begin,
		    std::uint64_t block) noexcept : rdmamsg_layout_part()
	{
		region = of;
		offset = begin;
		len = block;
	}
	layout_part(const rmsg::region &of, std::uint64_t begin,
		    std::uint64_t block) noexcept
		: layout_part(of.native(), begin, block) {}

	/* Another dimension, which varies faster than those before. */
	layout_part &times(std::uint64_t blocks, std::uint64_t from_to) noexcept
	{
		/* one too many: rdmamsg_layout_define() refuses it */
		if (dims < RDMAMSG_LAYOUT_DIMS) {
			count[dims] = blocks;
			stride[dims] = from_to;
		}
		dims++;
		return *this;
	}
	/* From the part in a round to the part in the next one. */
	layout_part &every(std::uint64_t round) noexcept
	{
		step = round;
		return *this;
	}
};

/*
 * A layout that operations use when it is destroyed ends with its context. The
 * regions of its parts must stay until then, or until it is defined anew.
 */
class layout : public detail::owned<rdmamsg_layout, rdmamsg_layout_destroy> {
public:
	using owned::owned;
	/* access: enum rdmamsg_access; 0: a source. max_parts: capacity */
	layout(context &ctx, std::uint32_t access, std::uint32_t max_parts = 0)
		: layout(try_create(ctx, access, max_parts).value()) {}
	static result<layout> try_create(context &ctx, std::uint32_t access,
					 std::uint32_t max_parts = 0)
	{
		auto o = detail::sized<rdmamsg_layout_options>();

		o.access = access;
		o.max_parts = max_parts;
		return detail::own<layout>(ctx.core(), [&](auto c, auto made) {
			return rdmamsg_layout_create(c, &o, made);
		});
	}

	result<void> try_define(const std::vector<layout_part> &parts,
				std::uint64_t rounds = 1)
	{
		std::vector<rdmamsg_layout_part> all(parts.begin(),
						     parts.end());

		return result<void>(rdmamsg_layout_define(
			native(), all.data(),
			static_cast<std::uint32_t>(all.size()), rounds));
	}
	void define(const std::vector<layout_part> &parts,
		    std::uint64_t rounds = 1)
	{
		try_define(parts, rounds).value();
	}
	result<void> try_invalidate() noexcept
	{
		return result<void>(rdmamsg_layout_invalidate(native()));
	}
	void invalidate() { try_invalidate().value(); }

	rdmamsg_layout_attr attr() const
	{
		auto a = detail::sized<rdmamsg_layout_attr>();

		result<void>(rdmamsg_layout_query(native(), &a)).value();
		return a;
	}

	/* A part of other layouts. */
	rdmamsg_region *region() const noexcept
	{
		return rdmamsg_layout_region(native());
	}
	/* A gather entry of one-sided operations. */
	rdmamsg_sge part(std::size_t offset, std::size_t len) const noexcept
	{
		/* the library takes an offset where others have an address */
		auto at = reinterpret_cast<void *>(offset); // NOLINT

		return { at, len, region() };
	}

	result<void> try_register(endpoint_ref ep) noexcept
	{
		return result<void>(rdmamsg_layout_register(native(),
							    ep.native()));
	}
	void register_for(endpoint_ref ep) { try_register(ep).value(); }

	/*
	 * Writes the key for the endpoint's peer to 'key', at least key_len of
	 * attr(), and its length to *len. Both are the library's until 'done'
	 * is called.
	 */
	result<void> try_get_key(endpoint_ref ep, buffer key, std::size_t *len,
				 operation &done) noexcept
	{
		completion c(done);

		return detail::sent(c.accepted(rdmamsg_layout_get_key(
			native(), ep.native(), key.data(), key.size(), len,
			c.cookie())));
	}
	void get_key(endpoint_ref ep, buffer key, std::size_t *len,
		     operation &done)
	{
		try_get_key(ep, key, len, done).value();
	}

	/* In on_incoming: receives the message in the layout. */
	result<void> try_recv(endpoint_ref ep,
			      std::uint64_t offset = 0) noexcept
	{
		return result<void>(rdmamsg_layout_recv(ep.native(), native(),
							offset));
	}
	void recv(endpoint_ref ep, std::uint64_t offset = 0)
	{
		try_recv(ep, offset).value();
	}

	result<void> try_copy_in(std::uint64_t offset, bytes from) noexcept
	{
		return result<void>(rdmamsg_layout_copy_in(
			native(), offset, from.data(), from.size()));
	}
	void copy_in(std::uint64_t offset, bytes from)
	{
		try_copy_in(offset, from).value();
	}
	result<void> try_copy_out(std::uint64_t offset,
				  buffer to) const noexcept
	{
		return result<void>(rdmamsg_layout_copy_out(
			native(), offset, to.data(), to.size()));
	}
	void copy_out(std::uint64_t offset, buffer to) const
	{
		try_copy_out(offset, to).value();
	}
};

/* The key of a peer's layout, in this context until try_forget(). */
inline result<rdmamsg_key> try_layout_key(context &ctx, bytes received) noexcept
{
	rdmamsg_key key;
	int ret = rdmamsg_layout_import(ctx.native(), received.data(),
					received.size(), &key);

	if (ret)
		return result<void>(ret);
	return key;
}
inline rdmamsg_key layout_key(context &ctx, bytes received)
{
	return try_layout_key(ctx, received).value();
}
inline result<void> try_forget(context &ctx, const rdmamsg_key &key) noexcept
{
	return result<void>(rdmamsg_layout_forget(ctx.native(), &key));
}

} /* namespace rmsg */

#endif
