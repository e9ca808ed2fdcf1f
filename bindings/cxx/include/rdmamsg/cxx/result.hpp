/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors: as an exception, or as a result. And why a connection has ended. */
#ifndef RDMAMSG_CXX_RESULT_HPP
#define RDMAMSG_CXX_RESULT_HPP

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/cxx/bytes.hpp>

namespace rmsg {

/* Why a connection has ended: a copy of struct rdmamsg_reason. */
struct reason {
	rdmamsg_who who = RDMAMSG_WHO_NONE;
	rdmamsg_cause cause = RDMAMSG_CAUSE_NONE;
	int error = 0;		/* negative errno; 0: graceful */
	std::uint32_t code = 0;	/* of the peer's close or abort */
	int cm_event = -1;
	int cm_status = 0;
	int wc_status = 0;
	std::uint32_t vendor_err = 0;
	std::string data;	/* of the peer's reject, close or abort */
	std::string text;
	std::string operation;

	reason() = default;
	explicit reason(const rdmamsg_reason &r)
		: who(r.who), cause(r.cause), error(r.error), code(r.code),
		  cm_event(r.cm_event), cm_status(r.cm_status),
		  wc_status(r.wc_status), vendor_err(r.vendor_err),
		  data(static_cast<const char *>(r.data), r.data_len),
		  text(r.text), operation(r.operation ? r.operation : "") {}
};

/* The exception of every call. what() says what to do. */
class error : public std::system_error {
public:
	error(int status, const char *text)
		: std::system_error(-status, std::generic_category(), text) {}
};

/* The connection could not be made, or has ended: why() tells. */
class connection_error : public error {
public:
	explicit connection_error(reason why)
		: error(why.error ? why.error : -ESHUTDOWN, why.text.c_str()),
		  why_(std::make_shared<const reason>(std::move(why))) {}

	const reason &why() const noexcept { return *why_; }

private:
	std::shared_ptr<const reason> why_;
};

namespace detail {

/* A program without exceptions that asks for a value that is not there. */
template <class E> [[noreturn]] void raise(E &&e)
{
#if defined(__cpp_exceptions)
	throw std::forward<E>(e);
#else
	static_cast<void>(e);
	std::abort();
#endif
}

} /* namespace detail */

/*
 * The result of a call whose name begins with try_: a value, or a negative
 * errno. value() throws the error instead.
 */
template <class T = void> class result;

template <> class [[nodiscard]] result<void> {
public:
	constexpr result() noexcept = default;
	/* text: static; without one it is that of the thread's last failure */
	constexpr explicit result(int status, const char *text = nullptr)
		noexcept : status_(status < 0 ? status : 0), text_(text) {}

	constexpr explicit operator bool() const noexcept
	{
		return status_ == 0;
	}
	constexpr bool ok() const noexcept { return status_ == 0; }
	/* 0 or a negative errno */
	constexpr int status() const noexcept { return status_; }
	/* Nothing was accepted, and on_writable follows. */
	constexpr bool again() const noexcept { return status_ == -EAGAIN; }
	std::error_code code() const noexcept
	{
		return { -status_, std::generic_category() };
	}
	/* Valid until the thread's next call. */
	const char *text() const noexcept
	{
		return ok() ? "" : text_ ? text_ : rdmamsg_error();
	}
	void value() const
	{
		if (status_ < 0)
			detail::raise(error(status_, text()));
	}

private:
	int status_ = 0;
	const char *text_ = nullptr;
};

template <class T> class [[nodiscard]] result {
public:
	result(T value) : value_(std::move(value)) {}
	result(result<void> failed) noexcept : failed_(failed) {}

	explicit operator bool() const noexcept { return value_.has_value(); }
	bool ok() const noexcept { return value_.has_value(); }
	int status() const noexcept { return failed_.status(); }
	bool again() const noexcept { return failed_.again(); }
	std::error_code code() const noexcept { return failed_.code(); }
	const char *text() const noexcept { return failed_.text(); }

	T &value() &
	{
		failed_.value();
		return *value_;
	}
	T value() &&
	{
		failed_.value();
		return std::move(*value_);
	}
	T &operator*() & noexcept { return *value_; }
	T &&operator*() && noexcept { return std::move(*value_); }
	T *operator->() noexcept { return &*value_; }

private:
	std::optional<T> value_;
	result<void> failed_;
};

namespace detail {

/* The result of a C call that returns 0 or a count, or a negative errno. */
inline result<int> counted(int ret)
{
	if (ret < 0)
		return result<void>(ret);
	return ret;
}

/* That of a call whose -EAGAIN leaves the thread's text as it is. */
inline result<void> sent(int ret) noexcept
{
	return result<void>(ret, ret != -EAGAIN ? nullptr :
			    "no room now: on_writable follows");
}

} /* namespace detail */

} /* namespace rmsg */

#endif
