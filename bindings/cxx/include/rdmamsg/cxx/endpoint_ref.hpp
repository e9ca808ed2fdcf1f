/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of an endpoint, whoever owns it. */
#ifndef RDMAMSG_CXX_ENDPOINT_REF_HPP
#define RDMAMSG_CXX_ENDPOINT_REF_HPP

#include <array>
#include <initializer_list>
#include <string>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/cxx/core.hpp>
#include <rdmamsg/cxx/message.hpp>
#include <rdmamsg/cxx/operation.hpp>
#include <rdmamsg/cxx/options.hpp>
#include <rdmamsg/cxx/state.hpp>

namespace rmsg {

/* One or more gather entries: those of a region come from region::part(). */
class parts {
public:
	parts(const rdmamsg_sge &one) noexcept : data_(&one), count_(1) {}
	parts(std::initializer_list<rdmamsg_sge> list) noexcept
		: parts(list.begin(), list.size()) {}
	parts(const rdmamsg_sge *data, std::size_t count) noexcept
		: data_(data), count_(static_cast<int>(count)) {}

	const rdmamsg_sge *data() const noexcept { return data_; }
	int count() const noexcept { return count_; }

private:
	const rdmamsg_sge *data_;
	int count_;
};

/* A gather entry of a small write, which copies the memory. */
inline rdmamsg_sge copied(bytes b) noexcept
{
	return { const_cast<std::byte *>(b.data()), b.size(), nullptr };
}

/*
 * An endpoint that somebody else owns, as callbacks get it. Valid until
 * on_closed has returned, or as long as there is an owner; a call without an
 * endpoint fails with EINVAL. Each call is described at that of its name in the
 * C interface. Those without try_ throw the error that those with it return.
 */
class endpoint_ref {
public:
	endpoint_ref() noexcept = default;
	explicit endpoint_ref(rdmamsg_ep *ep) noexcept : ep_(ep) {}

	rdmamsg_ep *native() const noexcept { return ep_; }
	explicit operator bool() const noexcept { return ep_ != nullptr; }
	friend bool operator==(endpoint_ref a, endpoint_ref b) noexcept
	{
		return a.ep_ == b.ep_;
	}
	friend bool operator!=(endpoint_ref a, endpoint_ref b) noexcept
	{
		return a.ep_ != b.ep_;
	}

	/* A pointer of the program, for handlers that endpoints share. */
	void *user() const noexcept { return ep_ ? self()->user : nullptr; }
	void set_user(void *user) noexcept
	{
		if (ep_)
			self()->user = user;
	}

	/* ---- sending ---- */

	result<void> try_send(bytes data, std::uint32_t tag = 0,
			      completion done = {}) noexcept
	{
		return detail::sent(done.accepted(rdmamsg_send(
			ep_, data.data(), data.size(), tag, done.cookie())));
	}
	void send(bytes data, std::uint32_t tag = 0, completion done = {})
	{
		try_send(data, tag, done).value();
	}

	/* On failure the message stays with the caller. */
	template <class Message>
	auto try_send(Message &&msg, std::uint32_t tag = 0,
		      completion done = {}) noexcept
		-> std::enable_if_t<is_message<Message>, result<void>>
	{
		int ret = rdmamsg_msg_send(ep_, msg.native(), tag,
					   done.cookie());

		if (!ret)
			msg.release();
		return detail::sent(done.accepted(ret));
	}
	template <class Message>
	auto send(Message &&msg, std::uint32_t tag = 0, completion done = {})
		-> std::enable_if_t<is_message<Message>>
	{
		try_send(std::forward<Message>(msg), tag, done).value();
	}

	/* Lends the memory until the operation, or else the endpoint, ends. */
	result<void> try_sendv(std::initializer_list<bytes> list,
			       std::uint32_t tag = 0,
			       completion done = {}) noexcept;
	void sendv(std::initializer_list<bytes> list, std::uint32_t tag = 0,
		   completion done = {})
	{
		try_sendv(list, tag, done).value();
	}

	result<message> try_alloc(std::size_t len)
	{
		rdmamsg_msg *msg;
		int ret = rdmamsg_msg_alloc(ep_, len, &msg);

		if (ret)
			return detail::sent(ret);
		return message(msg, self()->core);
	}
	message alloc(std::size_t len) { return try_alloc(len).value(); }

	/* ---- without a loop ---- */

	result<message> try_recv(milliseconds timeout = forever);
	message recv(milliseconds timeout = forever)
	{
		return try_recv(timeout).value();
	}

	result<void> try_send_wait(bytes data, std::uint32_t tag = 0,
				   milliseconds timeout = forever);
	void send_wait(bytes data, std::uint32_t tag = 0,
		       milliseconds timeout = forever)
	{
		try_send_wait(data, tag, timeout).value();
	}

	result<void> try_meet(std::uint32_t point,
			      milliseconds timeout = forever);
	void meet(std::uint32_t point, milliseconds timeout = forever)
	{
		try_meet(point, timeout).value();
	}

	/* ---- the end ---- */

	void close() noexcept { rdmamsg_ep_close(ep_); }
	void abort() noexcept { rdmamsg_ep_abort(ep_); }
	result<void> try_close_with(std::uint32_t code,
				    bytes data = {}) noexcept
	{
		return result<void>(rdmamsg_ep_close_with(
			ep_, code, data.data(), data.size()));
	}
	void close_with(std::uint32_t code, bytes data = {})
	{
		try_close_with(code, data).value();
	}
	result<void> try_abort_with(std::uint32_t code,
				    bytes data = {}) noexcept
	{
		return result<void>(rdmamsg_ep_abort_with(
			ep_, code, data.data(), data.size()));
	}
	void abort_with(std::uint32_t code, bytes data = {})
	{
		try_abort_with(code, data).value();
	}

	/* ---- flow ---- */

	result<void> try_pause() noexcept
	{
		return result<void>(rdmamsg_ep_pause(ep_));
	}
	void pause() { try_pause().value(); }
	result<void> try_resume() noexcept
	{
		return result<void>(rdmamsg_ep_resume(ep_));
	}
	void resume() { try_resume().value(); }
	result<void> try_cancel(operation &op) noexcept
	{
		return result<void>(rdmamsg_ep_cancel(ep_, op.slot()));
	}
	void cancel(operation &op) { try_cancel(op).value(); }

	/* ---- one-sided operations ---- */

	result<void> try_write(parts from, const rdmamsg_key &key,
			       std::uint64_t offset, completion done = {},
			       std::uint32_t flags = 0) noexcept
	{
		return detail::sent(done.accepted(rdmamsg_write(
			ep_, from.data(), from.count(), &key, offset, flags,
			done.cookie())));
	}
	void write(parts from, const rdmamsg_key &key, std::uint64_t offset,
		   completion done = {}, std::uint32_t flags = 0)
	{
		try_write(from, key, offset, done, flags).value();
	}

	result<void> try_read(parts into, const rdmamsg_key &key,
			      std::uint64_t offset, completion done = {},
			      std::uint32_t flags = 0) noexcept
	{
		return detail::sent(done.accepted(rdmamsg_read(
			ep_, into.data(), into.count(), &key, offset, flags,
			done.cookie())));
	}
	void read(parts into, const rdmamsg_key &key, std::uint64_t offset,
		  completion done = {}, std::uint32_t flags = 0)
	{
		try_read(into, key, offset, done, flags).value();
	}

	/* old: lent until the operation ends; or nullptr. */
	result<void> try_fetch_add(const rdmamsg_key &key, std::uint64_t offset,
				   std::uint64_t add, std::uint64_t *old,
				   completion done = {},
				   std::uint32_t flags = 0) noexcept
	{
		return detail::sent(done.accepted(rdmamsg_fetch_add(
			ep_, &key, offset, add, old, flags, done.cookie())));
	}
	void fetch_add(const rdmamsg_key &key, std::uint64_t offset,
		       std::uint64_t add, std::uint64_t *old,
		       completion done = {}, std::uint32_t flags = 0)
	{
		try_fetch_add(key, offset, add, old, done, flags).value();
	}

	result<void> try_compare_swap(const rdmamsg_key &key,
				      std::uint64_t offset,
				      std::uint64_t expected,
				      std::uint64_t desired, std::uint64_t *old,
				      completion done = {},
				      std::uint32_t flags = 0) noexcept
	{
		return detail::sent(done.accepted(rdmamsg_compare_swap(
			ep_, &key, offset, expected, desired, old, flags,
			done.cookie())));
	}
	void compare_swap(const rdmamsg_key &key, std::uint64_t offset,
			  std::uint64_t expected, std::uint64_t desired,
			  std::uint64_t *old, completion done = {},
			  std::uint32_t flags = 0)
	{
		try_compare_swap(key, offset, expected, desired, old, done,
				 flags).value();
	}

	result<void> try_flush(completion done) noexcept
	{
		return detail::sent(done.accepted(
			rdmamsg_flush(ep_, done.cookie())));
	}
	void flush(completion done) { try_flush(done).value(); }

	/* Any operation; its size, cookie and on_late are set here. */
	result<void> try_post(rdmamsg_op op, completion done = {}) noexcept;
	void post(const rdmamsg_op &op, completion done = {})
	{
		try_post(op, done).value();
	}

	/* ---- failover ---- */

	result<void> try_migrate(const rdmamsg_migrate_options &opts =
				 detail::sized<rdmamsg_migrate_options>())
		noexcept
	{
		return result<void>(rdmamsg_ep_migrate(ep_, &opts));
	}
	void migrate() { try_migrate().value(); }
	result<void> try_set_alternate(std::uint32_t port,
				       std::uint32_t lid = 0) noexcept
	{
		auto alt = detail::sized<rdmamsg_alternate>();

		alt.port = port;
		alt.lid = lid;
		return result<void>(rdmamsg_ep_set_alternate(ep_, &alt));
	}
	void set_alternate(std::uint32_t port, std::uint32_t lid = 0)
	{
		try_set_alternate(port, lid).value();
	}
	rdmamsg_ep_path_attr path() const
	{
		return query<rdmamsg_ep_path_attr>(rdmamsg_ep_path_query);
	}
	/* The last events of an endpoint with failover, for people. */
	std::string history() const;

	/* ---- out of band ---- */

	/* Of an endpoint of oob_offer() or oob_answer(), for the other side. */
	result<std::string> try_oob_record() const
	{
		std::string record(RDMAMSG_OOB_MAX, '\0');
		int ret = rdmamsg_oob_record(ep_, record.data(), record.size());

		if (ret < 0)
			return result<void>(ret);
		record.resize(static_cast<std::size_t>(ret));
		return record;
	}
	std::string oob_record() const { return try_oob_record().value(); }
	result<void> try_oob_finish(bytes record) noexcept
	{
		return result<void>(rdmamsg_oob_finish(ep_, record.data(),
						       record.size()));
	}
	void oob_finish(bytes record) { try_oob_finish(record).value(); }

	/* ---- diagnosis ---- */

	rdmamsg_state state() const noexcept { return rdmamsg_ep_state(ep_); }
	/* Its cause is RDMAMSG_CAUSE_NONE before the end begins. */
	reason why() const
	{
		return ep_ ? reason(*rdmamsg_ep_reason(ep_)) : reason();
	}
	bytes peer_data() const noexcept
	{
		std::size_t len = 0;
		const void *data = rdmamsg_ep_peer_data(ep_, &len);

		return { data, data ? len : 0 };
	}
	const char *device_name() const noexcept
	{
		return rdmamsg_ep_device_name(ep_);
	}
	rdmamsg_ep_attr attr() const
	{
		return query<rdmamsg_ep_attr>(rdmamsg_ep_query);
	}
	rdmamsg_ep_flow_attr flow() const
	{
		return query<rdmamsg_ep_flow_attr>(rdmamsg_ep_flow_query);
	}
	rdmamsg_stats stats() const
	{
		return query<rdmamsg_stats>(rdmamsg_ep_get_stats);
	}
	rdmamsg_masked_attr masked() const
	{
		return query<rdmamsg_masked_attr>(rdmamsg_ep_masked_query);
	}

protected:
	detail::endpoint_state *self() const noexcept
	{
		return detail::endpoint_state::of(ep_);
	}

	rdmamsg_ep *ep_ = nullptr;

private:
	template <class S, class F> S query(F call) const
	{
		S s = detail::sized<S>();

		result<void>(call(ep_, &s)).value();
		return s;
	}
	/* Calls what waits, and so runs callbacks. */
	template <class F> int drive(F call)
	{
		detail::state_ref keep(ep_ ? self() : nullptr);

		if (!keep)
			return -EINVAL;
		return keep->core->drive(
			[&](::rdmamsg *) { return call(keep->ep); }, true);
	}
};

inline result<void> endpoint_ref::try_sendv(std::initializer_list<bytes> list,
					    std::uint32_t tag,
					    completion done) noexcept
{
	std::array<iovec, RDMAMSG_SEGMENTS_MAX> iov;
	std::size_t n = 0;

	if (list.size() > iov.size())
		return result<void>(-EINVAL, "too many segments");
	for (bytes b : list)
		iov[n++] = { const_cast<std::byte *>(b.data()), b.size() };
	return detail::sent(done.accepted(rdmamsg_sendv(
		ep_, iov.data(), static_cast<int>(n), tag, done.cookie())));
}

inline result<message> endpoint_ref::try_recv(milliseconds timeout)
{
	message received;
	int ret = drive([&](rdmamsg_ep *ep) {
		rdmamsg_msg *msg;
		int err = rdmamsg_recv_wait(ep, detail::to_wait(timeout), &msg);

		if (!err)
			received = { msg,
				     detail::endpoint_state::of(ep)->core };
		return err;
	});

	if (ret)
		return result<void>(ret);
	return { std::move(received) };
}

inline result<void> endpoint_ref::try_send_wait(bytes data, std::uint32_t tag,
						milliseconds timeout)
{
	return result<void>(drive([&](rdmamsg_ep *ep) {
		return rdmamsg_send_wait(ep, data.data(), data.size(), tag,
					 detail::to_wait(timeout));
	}));
}

inline result<void> endpoint_ref::try_meet(std::uint32_t point,
					   milliseconds timeout)
{
	return result<void>(drive([&](rdmamsg_ep *ep) {
		return rdmamsg_ep_meet_wait(ep, point,
					    detail::to_wait(timeout));
	}));
}

inline std::string endpoint_ref::history() const
{
	std::string text(static_cast<std::size_t>(
		rdmamsg_ep_history(ep_, nullptr, 0)), '\0');

	rdmamsg_ep_history(ep_, text.data(), text.size() + 1);
	return text;
}

} /* namespace rmsg */

#endif
