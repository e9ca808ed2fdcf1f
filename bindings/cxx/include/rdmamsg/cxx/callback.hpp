/* SPDX-License-Identifier: BSD-2-Clause */
/* A callable, stored once: a call allocates nothing. */
#ifndef RDMAMSG_CXX_CALLBACK_HPP
#define RDMAMSG_CXX_CALLBACK_HPP

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace rmsg {

template <class Signature> class callback;

/*
 * Any callable that can be moved, unlike with std::function, which copies.
 * Small ones are in the object itself, others in memory of their own.
 */
template <class R, class... Args> class callback<R(Args...)> {
	static constexpr std::size_t room = 4 * sizeof(void *);

	template <class F>
	static constexpr bool is_small = sizeof(F) <= room &&
		alignof(F) <= alignof(std::max_align_t) &&
		std::is_nothrow_move_constructible_v<F>;

	template <class F> static F &in(void *place) noexcept
	{
		if constexpr (is_small<F>)
			return *std::launder(static_cast<F *>(place));
		else
			return **std::launder(static_cast<F **>(place));
	}

	template <class F> static R call(void *place, Args... args)
	{
		return static_cast<R>(in<F>(place)(
			std::forward<Args>(args)...));
	}

	/* Moves to 'to', or without that destroys. */
	template <class F> static void move(void *from, void *to) noexcept
	{
		if constexpr (is_small<F>) {
			F &f = in<F>(from);

			if (to)
				::new (to) F(std::move(f));
			f.~F();	/* NOLINT(bugprone-use-after-move) */
		} else if (to) {
			::new (to) F *(&in<F>(from));
		} else {
			delete &in<F>(from);
		}
	}

public:
	callback() noexcept = default;
	callback(std::nullptr_t) noexcept {}

	/* The types of arguments may be incomplete unless it is called. */
	template <class F, class D = std::decay_t<F>,
		  class = std::enable_if_t<std::conjunction_v<
			  std::negation<std::is_same<D, callback>>,
			  std::is_invocable_r<R, D &, Args...>>>>
	callback(F &&f) : call_(call<D>), move_(move<D>)
	{
		if constexpr (is_small<D>)
			::new (place_) D(std::forward<F>(f));
		else
			::new (place_) D *(new D(std::forward<F>(f)));
	}

	callback(callback &&other) noexcept { take(other); }
	callback &operator=(callback &&other) noexcept
	{
		if (this != &other) {
			reset();
			take(other);
		}
		return *this;
	}
	callback(const callback &) = delete;
	callback &operator=(const callback &) = delete;
	~callback() { reset(); }

	explicit operator bool() const noexcept { return call_ != nullptr; }

	/* Only if there is a callable. */
	R operator()(Args... args)
	{
		return call_(place_, std::forward<Args>(args)...);
	}

private:
	void reset() noexcept
	{
		call_ = nullptr;
		if (move_)
			std::exchange(move_, nullptr)(place_, nullptr);
	}

	void take(callback &other) noexcept
	{
		if (!other.move_)
			return;
		other.move_(other.place_, place_);
		call_ = std::exchange(other.call_, nullptr);
		move_ = std::exchange(other.move_, nullptr);
	}

	R (*call_)(void *, Args...) = nullptr;
	void (*move_)(void *, void *) noexcept = nullptr;
	alignas(std::max_align_t) std::byte place_[room];
};

} /* namespace rmsg */

#endif
