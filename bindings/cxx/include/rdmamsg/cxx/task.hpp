/* SPDX-License-Identifier: BSD-2-Clause */
/* Tasks: coroutines of C++20 that return a value. */
#ifndef RDMAMSG_CXX_TASK_HPP
#define RDMAMSG_CXX_TASK_HPP

#include <version>
#if defined(__cpp_impl_coroutine) && defined(__cpp_lib_coroutine)

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include <rdmamsg/cxx/context.hpp>

namespace rmsg {

template <class T = void> class task;

namespace detail {

/* Resumes who awaits the task, if anyone does. */
struct task_end {
	bool await_ready() noexcept { return false; }
	template <class P>
	std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h)
		noexcept
	{
		std::coroutine_handle<> waiter = h.promise().waiter;

		return waiter ? waiter : std::noop_coroutine();
	}
	void await_resume() noexcept {}
};

struct promise_base {
	std::coroutine_handle<> waiter;
	std::exception_ptr thrown;

	std::suspend_always initial_suspend() noexcept { return {}; }
	task_end final_suspend() noexcept { return {}; }
	void unhandled_exception() noexcept
	{
		thrown = std::current_exception();
	}
	void rethrow()
	{
		if (thrown)
			std::rethrow_exception(std::exchange(thrown, nullptr));
	}
};

template <class T> struct promise : promise_base {
	std::optional<T> value;

	task<T> get_return_object() noexcept;
	template <class U> void return_value(U &&u)
	{
		value.emplace(std::forward<U>(u));
	}
	T take()
	{
		rethrow();
		return std::move(*value);
	}
};

template <> struct promise<void> : promise_base {
	task<void> get_return_object() noexcept;
	void return_void() noexcept {}
	void take() { rethrow(); }
};

} /* namespace detail */

/*
 * A coroutine that begins when it is awaited. The owner of a task that is
 * destroyed destroys the coroutine, wherever it waits.
 */
template <class T> class [[nodiscard]] task {
public:
	using promise_type = detail::promise<T>;
	using handle = std::coroutine_handle<promise_type>;

	explicit task(handle h) noexcept : handle_(h) {}
	task(task &&other) noexcept
		: handle_(std::exchange(other.handle_, nullptr)) {}
	task &operator=(task &&other) noexcept
	{
		std::swap(handle_, other.handle_);
		return *this;
	}
	~task()
	{
		if (handle_)
			handle_.destroy();
	}

	bool await_ready() const noexcept { return handle_.done(); }
	handle await_suspend(std::coroutine_handle<> waiter) noexcept
	{
		handle_.promise().waiter = waiter;
		return handle_;
	}
	T await_resume() { return handle_.promise().take(); }

	/* Begins without being awaited. Then result() when it is done(). */
	void start() { handle_.resume(); }
	bool done() const noexcept { return handle_ && handle_.done(); }
	T result() { return handle_.promise().take(); }

private:
	handle handle_;
};

namespace detail {

template <class T> task<T> promise<T>::get_return_object() noexcept
{
	return task<T>(std::coroutine_handle<promise>::from_promise(*this));
}

inline task<void> promise<void>::get_return_object() noexcept
{
	return task<void>(std::coroutine_handle<promise>::from_promise(*this));
}

/* Owns itself, until its end or that of its context. */
struct detached {
	struct promise_type : leftover {
		promise_type(core *c, task<void> &) noexcept
		{
			destroy = [](leftover *l) {
				handle::from_promise(
					*static_cast<promise_type *>(l))
					.destroy();
			};
			join(c->leftovers);
		}
		detached get_return_object() noexcept { return {}; }
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() noexcept {}
		[[noreturn]] void unhandled_exception() noexcept
		{
			std::terminate();
		}
	};
	using handle = std::coroutine_handle<promise_type>;
};

inline detached own_itself(core *c, task<void> t)
{
	try {
		co_await t;
	} catch (...) {
		c->caught(std::current_exception());
	}
}

/* An awaitable whose result is thrown if it is an error. */
template <class A> struct throwing : A {
	explicit throwing(A &&a) : A(std::move(a)) {}
	auto await_resume() { return A::await_resume().value(); }
};
template <class A> throwing(A &&) -> throwing<A>;

} /* namespace detail */

/*
 * The task goes on by itself. What it throws reaches the caller of the next
 * call that drives the context. The end of the context destroys it.
 */
inline void spawn(context &ctx, task<void> t)
{
	if (!ctx.native())
		detail::raise(error(-EINVAL, "there is no context"));
	detail::own_itself(ctx.core().get(), std::move(t));
}

/* Drives the context until the task is done, and returns what it does. */
template <class T> T run(context &ctx, task<T> t)
{
	t.start();
	result<void>(ctx.core()->wait_until([&t] { return t.done(); }, forever))
		.value();
	return t.result();
}

} /* namespace rmsg */

#endif
#endif
