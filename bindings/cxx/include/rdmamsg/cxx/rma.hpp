/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations: regions and their keys, windows, caches. */
#ifndef RDMAMSG_CXX_RMA_HPP
#define RDMAMSG_CXX_RMA_HPP

#include <utility>

#include <rdmamsg/rma.h>
#include <rdmamsg/cxx/context.hpp>
#include <rdmamsg/cxx/memory.hpp>
#include <rdmamsg/cxx/owned.hpp>

namespace rmsg {

/*
 * Memory for one-sided operations, which stays the program's. It must stay
 * mapped until try_destroy() has succeeded or the context has ended: a region
 * that operations use when it is destroyed ends with its context.
 */
class region : public detail::owned<rdmamsg_region, rdmamsg_region_destroy> {
public:
	using owned::owned;
	/* access: enum rdmamsg_access */
	region(context &ctx, buffer memory, std::uint32_t access)
		: region(try_create(ctx, memory, access).value()) {}
	static result<region> try_create(context &ctx, buffer memory,
					 std::uint32_t access)
	{
		auto r = detail::own<region>(ctx.core(),
			[&](auto c, auto made) {
			return rdmamsg_region_create(c, memory.data(),
						     memory.size(), access,
						     made);
		});

		if (r)
			r->memory_ = memory;
		return r;
	}
	static result<region> try_dmabuf(context &ctx, int fd,
					 std::uint64_t offset, std::size_t len,
					 std::uint32_t access)
	{
		return detail::own<region>(ctx.core(), [&](auto c, auto made) {
			return rdmamsg_region_dmabuf(c, fd, offset, len, access,
						     made);
		});
	}

	/* nullptr: the domain of each device. */
	result<void> try_set_pd(protection_domain *pd) noexcept
	{
		return result<void>(rdmamsg_region_set_pd(
			native(), pd ? pd->native() : nullptr));
	}
	result<void> try_register(endpoint_ref ep) noexcept
	{
		return result<void>(rdmamsg_region_register(native(),
							    ep.native()));
	}
	void register_for(endpoint_ref ep) { try_register(ep).value(); }
	/* Without an endpoint: of a domain that has a device. */
	result<rdmamsg_key> try_key(endpoint_ref ep) noexcept
	{
		rdmamsg_key key;
		int ret = rdmamsg_region_get_key(native(), ep.native(), &key);

		if (ret)
			return result<void>(ret);
		return key;
	}
	rdmamsg_key key(endpoint_ref ep) { return try_key(ep).value(); }
	result<void> try_revoke() noexcept
	{
		return result<void>(rdmamsg_region_revoke(native()));
	}
	void revoke() { try_revoke().value(); }

	/* A gather entry. The library checks the range. */
	rdmamsg_sge part(std::size_t offset, std::size_t len) const noexcept
	{
		return { memory_.data() + offset, len, native() };
	}
	rdmamsg_sge all() const noexcept { return part(0, memory_.size()); }
	buffer memory() const noexcept { return memory_; }

private:
	buffer memory_;
};

inline result<rdmamsg_key> request::try_key(region &r) noexcept
{
	rdmamsg_key key;
	int ret = rdmamsg_request_get_key(native(), r.native(), &key);

	if (ret)
		return result<void>(ret);
	return key;
}

/* The key that a peer has sent. */
inline result<rdmamsg_key> try_key(bytes received) noexcept
{
	rdmamsg_key key;
	int ret = rdmamsg_key_import(received.data(), received.size(), &key);

	if (ret)
		return result<void>(ret);
	return key;
}
inline rdmamsg_key key(bytes received) { return try_key(received).value(); }

inline rdmamsg_key_attr attr(const rdmamsg_key &key)
{
	auto a = detail::sized<rdmamsg_key_attr>();

	result<void>(rdmamsg_key_query(&key, &a)).value();
	return a;
}

/* Access to a part of a region for the peer of one endpoint, which ends it. */
class window {
public:
	window() noexcept = default;
	explicit window(endpoint_ref ep) : window(try_create(ep).value()) {}
	static result<window> try_create(endpoint_ref ep)
	{
		window w;
		int ret = rdmamsg_window_create(ep.native(), &w.window_);

		if (ret)
			return result<void>(ret);
		w.state_ = detail::state_ref(
			detail::endpoint_state::of(ep.native()));
		return { std::move(w) };
	}
	window(window &&other) noexcept
		: window_(std::exchange(other.window_, nullptr)),
		  state_(std::move(other.state_)) {}
	window &operator=(window &&other) noexcept
	{
		std::swap(window_, other.window_);
		std::swap(state_, other.state_);
		return *this;
	}
	~window() { static_cast<void>(rdmamsg_window_destroy(native())); }

	result<rdmamsg_key> try_bind(region &r, std::size_t offset,
				     std::size_t len, std::uint32_t access,
				     completion done = {}) noexcept
	{
		rdmamsg_key key;
		int ret = done.accepted(rdmamsg_window_bind(
			native(), r.native(), offset, len, access, &key,
			done.cookie()));

		if (ret)
			return detail::sent(ret);
		return key;
	}
	rdmamsg_key bind(region &r, std::size_t offset, std::size_t len,
			 std::uint32_t access, completion done = {})
	{
		return try_bind(r, offset, len, access, done).value();
	}
	result<void> try_invalidate(completion done = {}) noexcept
	{
		return detail::sent(done.accepted(rdmamsg_window_invalidate(
			native(), done.cookie())));
	}
	void invalidate(completion done = {}) { try_invalidate(done).value(); }

	rdmamsg_window *native() const noexcept
	{
		return state_ && !state_->ended ? window_ : nullptr;
	}

private:
	rdmamsg_window *window_ = nullptr;
	detail::state_ref state_;
};

/* Regions of memory that is used again. */
class cache : public detail::owned<rdmamsg_cache, rdmamsg_cache_destroy> {
public:
	using owned::owned;
	explicit cache(context &ctx, rdmamsg_cache_options o =
		       detail::sized<rdmamsg_cache_options>())
		: cache(try_create(ctx, o).value()) {}
	static result<cache> try_create(context &ctx, rdmamsg_cache_options o =
					detail::sized<rdmamsg_cache_options>())
	{
		o.size = sizeof(o);
		return detail::own<cache>(ctx.core(), [&](auto c, auto made) {
			return rdmamsg_cache_create(c, &o, made);
		});
	}

	/* The region is the cache's, until put(). */
	result<rdmamsg_region *> try_get(endpoint_ref ep, buffer memory,
					 std::uint32_t access) noexcept
	{
		rdmamsg_region *r;
		int ret = rdmamsg_cache_get(native(), ep.native(),
					    memory.data(), memory.size(),
					    access, &r);

		if (ret)
			return result<void>(ret);
		return r;
	}
	result<void> try_put(rdmamsg_region *r) noexcept
	{
		return result<void>(rdmamsg_cache_put(native(), r));
	}
	result<void> try_invalidate(bytes memory) noexcept
	{
		return result<void>(rdmamsg_cache_invalidate(
			native(), memory.data(), memory.size()));
	}

	rdmamsg_cache_stats stats() const
	{
		auto s = detail::sized<rdmamsg_cache_stats>();

		result<void>(rdmamsg_cache_get_stats(native(), &s)).value();
		return s;
	}
};

} /* namespace rmsg */

#endif
