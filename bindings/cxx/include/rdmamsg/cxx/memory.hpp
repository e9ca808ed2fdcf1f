/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues, pools and protection domains. */
#ifndef RDMAMSG_CXX_MEMORY_HPP
#define RDMAMSG_CXX_MEMORY_HPP

#include <rdmamsg/memory.h>
#include <rdmamsg/cxx/context.hpp>
#include <rdmamsg/cxx/owned.hpp>

namespace rmsg {

/*
 * Each is for the options of endpoints: .srq = queue.native(). One that is
 * still in use when it is destroyed ends with its context.
 */
class shared_receive_queue
	: public detail::owned<rdmamsg_srq, rdmamsg_srq_destroy> {
public:
	using owned::owned;
	explicit shared_receive_queue(context &ctx, rdmamsg_srq_options o =
				      detail::sized<rdmamsg_srq_options>())
		: shared_receive_queue(try_create(ctx, o).value()) {}
	static result<shared_receive_queue>
	try_create(context &ctx, rdmamsg_srq_options o =
		   detail::sized<rdmamsg_srq_options>())
	{
		o.size = sizeof(o);
		return detail::own<shared_receive_queue>(ctx.core(),
			[&](auto c, auto made) {
				return rdmamsg_srq_create(c, &o, made);
			});
	}

	rdmamsg_srq_stats stats() const
	{
		auto s = detail::sized<rdmamsg_srq_stats>();

		result<void>(rdmamsg_srq_get_stats(native(), &s)).value();
		return s;
	}
};

class pool : public detail::owned<rdmamsg_pool, rdmamsg_pool_destroy> {
public:
	using owned::owned;
	explicit pool(context &ctx, rdmamsg_pool_options o =
		      detail::sized<rdmamsg_pool_options>())
		: pool(try_create(ctx, o).value()) {}
	static result<pool> try_create(context &ctx, rdmamsg_pool_options o =
				       detail::sized<rdmamsg_pool_options>())
	{
		o.size = sizeof(o);
		return detail::own<pool>(ctx.core(), [&](auto c, auto made) {
			return rdmamsg_pool_create(c, &o, made);
		});
	}

	/* A message that every endpoint on the device of 'ep' sends. */
	result<message> try_alloc(endpoint_ref ep, std::size_t len)
	{
		rdmamsg_msg *msg;
		int ret = rdmamsg_pool_alloc(native(), ep.native(), len, &msg);

		if (ret)
			return detail::sent(ret);
		return message(msg, detail::endpoint_state::of(
			ep.native())->core);
	}
	message alloc(endpoint_ref ep, std::size_t len)
	{
		return try_alloc(ep, len).value();
	}

	rdmamsg_pool_stats stats() const
	{
		auto s = detail::sized<rdmamsg_pool_stats>();

		result<void>(rdmamsg_pool_get_stats(native(), &s)).value();
		return s;
	}
};

class protection_domain
	: public detail::owned<rdmamsg_pd, rdmamsg_pd_destroy> {
public:
	using owned::owned;
	/* device: nullptr: that of the first endpoint. */
	explicit protection_domain(context &ctx, const char *device = nullptr)
		: protection_domain(try_create(ctx, device).value()) {}
	static result<protection_domain>
	try_create(context &ctx, const char *device = nullptr)
	{
		auto o = detail::sized<rdmamsg_pd_options>();

		o.device = device;
		return detail::own<protection_domain>(ctx.core(),
			[&](auto c, auto made) {
				return rdmamsg_pd_create(c, &o, made);
			});
	}
};

/* Registered memory of so many endpoints with these options. Any thread. */
inline rdmamsg_memory_estimate
estimate(const endpoint_options &opts, std::uint32_t endpoints,
	 const rdmamsg_srq_options *srq = nullptr)
{
	auto e = detail::sized<rdmamsg_memory_estimate>();
	detail::c_endpoint_options o(opts, nullptr, nullptr);

	result<void>(rdmamsg_estimate(o.get(), srq, endpoints, &e)).value();
	return e;
}

} /* namespace rmsg */

#endif
