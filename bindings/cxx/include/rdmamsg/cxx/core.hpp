/* SPDX-License-Identifier: BSD-2-Clause */
/* Private: outlives the context for the objects that were made from it. */
#ifndef RDMAMSG_CXX_CORE_HPP
#define RDMAMSG_CXX_CORE_HPP

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <exception>
#include <utility>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/cxx/callback.hpp>
#include <rdmamsg/cxx/result.hpp>

namespace rmsg {

using std::chrono::milliseconds;

/* Of calls that wait: without a limit but those of the endpoint's options. */
constexpr milliseconds forever{ -1 };

/* Of options: RDMAMSG_NONE. */
constexpr milliseconds none{ -1 };

namespace detail {

inline int to_wait(milliseconds t) noexcept
{
	return t.count() < 0 ? -1 :
	       static_cast<int>(std::min<milliseconds::rep>(t.count(),
							    INT_MAX));
}

inline std::uint32_t to_option(milliseconds t) noexcept
{
	return t.count() < 0 ? RDMAMSG_NONE : static_cast<std::uint32_t>(
		std::min<milliseconds::rep>(t.count(), RDMAMSG_NONE - 1));
}

/* The end of a timeout that several waits share. */
class deadline {
public:
	explicit deadline(milliseconds timeout) noexcept
		: timeout_(timeout), start_(clock::now()) {}

	/* Not below 0, or 'forever'. Less than a millisecond counts as one. */
	milliseconds left() const noexcept
	{
		if (timeout_.count() < 0)
			return forever;
		return std::max(milliseconds(0), timeout_ -
			std::chrono::duration_cast<milliseconds>(clock::now() -
								 start_));
	}

private:
	using clock = std::chrono::steady_clock;

	milliseconds timeout_;
	clock::time_point start_;
};

/* A struct of the C interface that is all defaults. */
template <class S> S sized() noexcept
{
	S s = {};

	s.size = sizeof(s);
	return s;
}

/* Coroutines that own themselves: the end of a context destroys them. */
struct leftover {
	leftover *prev = this;
	leftover *next = this;
	void (*destroy)(leftover *) = nullptr;

	leftover() noexcept = default;
	leftover(const leftover &) = delete;
	leftover &operator=(const leftover &) = delete;
	~leftover()
	{
		prev->next = next;
		next->prev = prev;
	}
	void join(leftover &list) noexcept
	{
		prev = list.prev;
		next = &list;
		prev->next = this;
		list.prev = this;
	}
};

/*
 * The objects of a context have a reference each, so that they can end after
 * it: then there is nothing left to end. Only the context's thread counts.
 */
class core {
public:
	::rdmamsg *ctx = nullptr;	/* nullptr: closed */
	callback<void(const rdmamsg_event &)> on_event;
	callback<void(std::uint32_t)> on_shutdown;
	leftover leftovers;

	core() = default;
	core(const core &) = delete;
	core &operator=(const core &) = delete;

	void ref() noexcept { refs_++; }
	void unref() noexcept
	{
		if (--refs_ == 0)
			delete this;
	}

	/*
	 * An exception leaves a callback. One call throws one, so those of
	 * other callbacks that it runs wait for the next. The number is limited
	 * for programs that never take them.
	 */
	void caught(std::exception_ptr what) noexcept
	{
		if (thrown_ < most_thrown)
			thrown_list_[thrown_++] = std::move(what);
		if (running_)
			rdmamsg_stop(ctx);
	}

	/* The oldest. */
	std::exception_ptr take_exception() noexcept
	{
		std::exception_ptr first;

		if (!thrown_)
			return first;
		first = std::move(thrown_list_[0]);
		std::move(thrown_list_.begin() + 1,
			  thrown_list_.begin() + thrown_,
			  thrown_list_.begin());
		thrown_list_[--thrown_] = nullptr;
		return first;
	}

	void rethrow()
	{
		if (thrown_)
			std::rethrow_exception(take_exception());
	}

	/*
	 * Calls what runs callbacks. One of them may close the context. With
	 * 'keep' a call that has succeeded keeps an exception for the next one.
	 */
	template <class F> int drive(F call, bool keep = false)
	{
		int ret;

		if (!ctx)
			return -EINVAL;
		rethrow();
		ref();
		driving_++;
		ret = call(ctx);
		if (--driving_ == 0 && close_later_)
			close();
		finish_drive(keep && ret == 0);
		return ret;
	}

	/* Drives until done() or the timeout, for what has no call in C. */
	template <class F> int wait_until(F done, milliseconds timeout)
	{
		return wait_until(done, deadline(timeout));
	}
	template <class F> int wait_until(F done, const deadline &end)
	{
		int ret = 0;

		while (ret >= 0 && !done()) {
			milliseconds left = end.left();

			if (!left.count())
				return -ETIMEDOUT;
			ret = drive([left](::rdmamsg *c) {
				return rdmamsg_wait(c, to_wait(left));
			});
		}
		return std::min(ret, 0);
	}

	int run()
	{
		return drive([this](::rdmamsg *c) {
			int ret;

			running_ = true;
			ret = rdmamsg_run(c);
			running_ = false;
			return ret;
		});
	}

	/* True in callbacks of the context's end. */
	bool is_closing() const noexcept { return closing_; }

	void close() noexcept
	{
		if (driving_) {
			close_later_ = true;
		} else if (ctx && !closing_) {
			closing_ = true;
			rdmamsg_close(ctx);
			ctx = nullptr;
			while (leftovers.next != &leftovers)
				leftovers.next->destroy(leftovers.next);
		}
	}

private:
	static constexpr unsigned int most_thrown = 64;

	~core() = default;

	void finish_drive(bool keep)
	{
		std::exception_ptr thrown;

		if (!keep)
			thrown = take_exception();
		unref();
		if (thrown)
			std::rethrow_exception(std::move(thrown));
	}

	unsigned int refs_ = 0;
	unsigned int driving_ = 0;
	bool running_ = false;
	bool close_later_ = false;
	bool closing_ = false;
	unsigned int thrown_ = 0;
	std::array<std::exception_ptr, most_thrown> thrown_list_;
};

class core_ref {
public:
	core_ref() noexcept = default;
	explicit core_ref(core *c) noexcept : core_(c)
	{
		if (core_)
			core_->ref();
	}
	core_ref(const core_ref &other) noexcept : core_ref(other.core_) {}
	core_ref(core_ref &&other) noexcept
		: core_(std::exchange(other.core_, nullptr)) {}
	core_ref &operator=(core_ref other) noexcept
	{
		std::swap(core_, other.core_);
		return *this;
	}
	~core_ref()
	{
		if (core_)
			core_->unref();
	}

	core *operator->() const noexcept { return core_; }
	core *get() const noexcept { return core_; }
	explicit operator bool() const noexcept { return core_ != nullptr; }
	/* Without an open context: nullptr, which C calls refuse. */
	::rdmamsg *ctx() const noexcept { return core_ ? core_->ctx : nullptr; }
	/*
	 * True while there are listeners and requests: a context ends them
	 * before it calls on_closed of endpoints.
	 */
	bool listens() const noexcept
	{
		return ctx() && !core_->is_closing();
	}

private:
	core *core_ = nullptr;
};

/* Runs a callback of the program: no exception enters the library. */
template <class F> void guard(core &c, F &&call) noexcept
{
#if defined(__cpp_exceptions)
	try {
		call();
	} catch (...) {
		c.caught(std::current_exception());
	}
#else
	static_cast<void>(c);
	call();
#endif
}

} /* namespace detail */

} /* namespace rmsg */

#endif
