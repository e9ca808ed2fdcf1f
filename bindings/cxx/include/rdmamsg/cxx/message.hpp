/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: of one owner, in the context's thread, or shared by any. */
#ifndef RDMAMSG_CXX_MESSAGE_HPP
#define RDMAMSG_CXX_MESSAGE_HPP

#include <string_view>
#include <type_traits>
#include <utility>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/cxx/bytes.hpp>
#include <rdmamsg/cxx/core.hpp>

namespace rmsg {

class shared_message;

/*
 * A message that was received or allocated. Belongs to the context's thread,
 * and its data ends with the context; a message that must outlive it, or goes
 * to other threads, is shared: share().
 */
class message {
public:
	message() noexcept = default;
	message(rdmamsg_msg *msg, detail::core_ref core) noexcept
		: msg_(msg), core_(std::move(core)) {}
	message(message &&other) noexcept
		: msg_(std::exchange(other.msg_, nullptr)),
		  core_(std::move(other.core_)) {}
	message &operator=(message &&other) noexcept
	{
		std::swap(msg_, other.msg_);
		std::swap(core_, other.core_);
		return *this;
	}
	~message()
	{
		if (msg_ && core_->ctx)
			rdmamsg_msg_free(msg_);
	}

	/* False: moved from, sent, or its context is closed. */
	explicit operator bool() const noexcept { return native() != nullptr; }

	buffer data() noexcept { return { here(), size() }; }
	bytes data() const noexcept { return { here(), size() }; }
	std::size_t size() const noexcept { return rdmamsg_msg_len(native()); }
	std::uint32_t tag() const noexcept { return rdmamsg_msg_tag(native()); }
	std::string_view text() const noexcept { return data().text(); }

	/* Shorter, or up to what was allocated. */
	result<void> try_resize(std::size_t len) noexcept
	{
		return result<void>(rdmamsg_msg_set_len(native(), len));
	}
	void resize(std::size_t len) { try_resize(len).value(); }

	/* On failure the message stays here. */
	result<shared_message> try_share() &&;
	shared_message share() &&;

	rdmamsg_msg *native() const noexcept
	{
		return msg_ && core_->ctx ? msg_ : nullptr;
	}
	/* The caller frees the message. */
	rdmamsg_msg *release() noexcept
	{
		rdmamsg_msg *msg = native();

		msg_ = nullptr;
		return msg;
	}

private:
	void *here() const noexcept { return rdmamsg_msg_data(native()); }

	rdmamsg_msg *msg_ = nullptr;
	detail::core_ref core_;
};

/*
 * One of several owners of a message. Any thread, also after the end of the
 * context. Nobody writes to it.
 */
class shared_message {
public:
	shared_message() noexcept = default;
	shared_message(shared_message &&other) noexcept
		: msg_(std::exchange(other.msg_, nullptr)) {}
	/* Throws if there is no memory. */
	shared_message(const shared_message &other) : msg_(other.msg_)
	{
		if (msg_)
			result<void>(rdmamsg_msg_ref(msg_)).value();
	}
	shared_message &operator=(shared_message other) noexcept
	{
		std::swap(msg_, other.msg_);
		return *this;
	}
	~shared_message() { rdmamsg_msg_free(msg_); }

	explicit operator bool() const noexcept { return msg_ != nullptr; }

	bytes data() const noexcept
	{
		return { rdmamsg_msg_data(msg_), size() };
	}
	std::size_t size() const noexcept { return rdmamsg_msg_len(msg_); }
	std::uint32_t tag() const noexcept { return rdmamsg_msg_tag(msg_); }
	std::string_view text() const noexcept { return data().text(); }

	rdmamsg_msg *native() const noexcept { return msg_; }
	rdmamsg_msg *release() noexcept { return std::exchange(msg_, nullptr); }

private:
	friend class message;
	explicit shared_message(rdmamsg_msg *msg) noexcept : msg_(msg) {}

	rdmamsg_msg *msg_ = nullptr;
};

/* True for what is given away by moving it. */
template <class T>
constexpr bool is_message = std::is_same_v<T, message> ||
			    std::is_same_v<T, shared_message>;

/* The reference that is left is of the kind that any thread may free. */
inline result<shared_message> message::try_share() &&
{
	int ret = rdmamsg_msg_ref(native());

	if (ret)
		return result<void>(ret);
	rdmamsg_msg_free(msg_);
	return shared_message(release());
}

inline shared_message message::share() &&
{
	return std::move(*this).try_share().value();
}

} /* namespace rmsg */

#endif
