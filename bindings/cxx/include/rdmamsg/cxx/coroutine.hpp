/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints and listeners that coroutines of C++20 await. A callback resumes
 * the coroutine that waits, which then may make every call that a callback may.
 */
#ifndef RDMAMSG_CXX_COROUTINE_HPP
#define RDMAMSG_CXX_COROUTINE_HPP

#include <rdmamsg/cxx/task.hpp>
#if defined(__cpp_impl_coroutine) && defined(__cpp_lib_coroutine)

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <rdmamsg/cxx/rma.hpp>
#include <rdmamsg/cxx/timer.hpp>

namespace rmsg::co {

namespace detail {

using namespace rmsg::detail;

/* Coroutines that wait for the same, in the order in which they came. */
class waiting;

struct line {
	waiting *first = nullptr;
	waiting **end = &first;

	line() = default;
	line(const line &) = delete;
	line &operator=(const line &) = delete;
	inline ~line();
	inline waiting *take() noexcept;
	inline bool wake_first();
	inline void end_all();
};

/*
 * One coroutine in a line, a part of its frame. Whoever ends the wait takes it
 * out of the line before the coroutine is resumed, and does not use it after
 * that.
 */
class waiting {
public:
	waiting(line *in, core_ref core, milliseconds timeout) noexcept
		: line_(in), core_(std::move(core)), timeout_(timeout) {}
	waiting(waiting &&) = default;		/* before it waits */
	waiting &operator=(const waiting &) = delete;

	bool await_ready()
	{
		if (!line_)
			status_ = result<void>(-EINVAL, "nothing to wait for");
		return !line_ || ready();
	}
	bool await_suspend(std::coroutine_handle<> h)
	{
		handle_ = h;
		enter();
		return timeout_.count() < 0 || start_timer();
	}
	/* Ends the wait with an error. */
	void end(int status, const char *text)
	{
		leave();
		status_ = result<void>(status, text);
		handle_.resume();
	}
	void resume() { handle_.resume(); }

	/* True if there is nothing to wait for any more. */
	virtual bool ready() = 0;

protected:
	virtual ~waiting() { leave(); }

	result<void> status_;

	void leave() noexcept
	{
		timer_.reset();
		if (!prev_)
			return;
		*prev_ = next_;
		if (next_)
			next_->prev_ = prev_;
		else
			line_->end = prev_;
		next_ = nullptr;
		prev_ = nullptr;
	}

private:
	friend line;

	/* False: there is no timer, and so no wait. */
	bool start_timer()
	{
		int ret;

		timer_ = std::make_shared<timer_state>(core_, [this] {
			end(-ETIMEDOUT, "the time has passed");
		});
		ret = rdmamsg_timer_create(core_.ctx(), timer_state::expired,
					   timer_.get(), &timer_->timer);
		if (!ret)
			ret = rdmamsg_timer_start(timer_->timer,
						  to_option(timeout_), 0);
		if (ret)
			leave();
		status_ = result<void>(ret);
		return ret == 0;
	}

	void enter() noexcept
	{
		prev_ = line_->end;
		*prev_ = this;
		line_->end = &next_;
	}
	line *line_;
	core_ref core_;
	milliseconds timeout_;
	std::coroutine_handle<> handle_;
	std::shared_ptr<timer_state> timer_;
	waiting *next_ = nullptr;
	waiting **prev_ = nullptr;	/* what points here; nullptr: none */
};

inline waiting *line::take() noexcept
{
	waiting *w = first;

	if (w)
		w->leave();
	return w;
}

/* False if nobody can go on. */
inline bool line::wake_first()
{
	if (!first || !first->ready())
		return false;
	take()->resume();
	return true;
}

/* The object for which they wait is destroyed. */
inline void line::end_all()
{
	while (first)
		first->end(-ECANCELED, "what was awaited is gone");
}

inline line::~line()
{
	end_all();
}

/* State that the awaitables of an endpoint share. Callbacks keep it. */
struct session : std::enable_shared_from_this<session> {
	rmsg::endpoint ep;
	core_ref core;
	std::deque<message> arrived;
	bool connected = false;
	bool ended = false;
	line readers, writers, changes;

	/* A coroutine may destroy the session: nothing comes after. */
	void got(message &&msg);

	void changed()
	{
		auto keep = shared_from_this();

		while (writers.wake_first() || changes.wake_first() ||
		       readers.wake_first())
			;
	}

	void writable()
	{
		auto keep = shared_from_this();

		while (writers.wake_first())
			;
	}

	/* The owner is destroyed. Callbacks may still keep the session. */
	void drop()
	{
		auto keep = shared_from_this();

		ended = true;
		ep = rmsg::endpoint();
		arrived.clear();
		readers.end_all();
		writers.end_all();
		changes.end_all();
	}

	/* Sets the handlers that coroutines need. */
	void handle(handlers &on)
	{
		on.on_connected = [this](endpoint_ref) {
			connected = true;
			changed();
		};
		on.on_message = [this](endpoint_ref, message &&msg) {
			got(std::move(msg));
		};
		on.on_writable = [this](endpoint_ref) { writable(); };
		on.on_closed = [this](endpoint_ref, const reason &) {
			ended = true;
			changed();
		};
	}
};

inline line *line_of(const std::shared_ptr<session> &s, line session::*l)
{
	return s ? &(*s.*l) : nullptr;
}

inline core_ref core_of(const std::shared_ptr<session> &s)
{
	return s ? s->core : core_ref();
}

class receiving : public waiting {
public:
	receiving(const std::shared_ptr<session> &s, milliseconds timeout)
		: waiting(line_of(s, &session::readers), core_of(s), timeout),
		  session_(s.get()) {}

	bool ready() override
	{
		if (!session_->arrived.empty()) {
			msg_ = std::move(session_->arrived.front());
			session_->arrived.pop_front();
			return true;
		}
		if (session_->ended)
			status_ = result<void>(-ESHUTDOWN,
					       "the connection has ended");
		return session_->ended;
	}
	void give(message &&msg) noexcept { msg_ = std::move(msg); }
	result<message> await_resume()
	{
		if (!status_)
			return status_;
		return { std::move(msg_) };
	}

private:
	session *session_;
	message msg_;
};

inline void session::got(message &&msg)
{
	if (!readers.first) {
		arrived.push_back(std::move(msg));
		return;
	}
	auto *r = static_cast<receiving *>(readers.take());

	r->give(std::move(msg));
	r->resume();
}

/* Repeats a call until there is room. */
template <class F> class sending : public waiting {
public:
	sending(const std::shared_ptr<session> &s, milliseconds timeout, F call)
		: waiting(line_of(s, &session::writers), core_of(s), timeout),
		  session_(s.get()), call_(std::move(call)) {}

	bool ready() override
	{
		status_ = session_->ended ?
			  result<void>(-ESHUTDOWN, "the connection has ended") :
			  call_(session_->ep);
		return !status_.again();
	}
	result<void> await_resume() { return status_; }

private:
	session *session_;
	F call_;
};

template <class F>
sending(const std::shared_ptr<session> &, milliseconds, F) -> sending<F>;

/* Waits until the endpoint is connected, or has ended. */
class changing : public waiting {
public:
	changing(const std::shared_ptr<session> &s, bool end,
		 milliseconds timeout)
		: waiting(line_of(s, &session::changes), core_of(s), timeout),
		  session_(s), end_(end) {}

	bool ready() override
	{
		return session_->ended || (!end_ && session_->connected);
	}
	result<reason> await_resume()
	{
		if (!status_)
			return status_;
		return session_->ep.why();
	}

private:
	std::shared_ptr<session> session_;
	bool end_;
};

/* Waits until a listener has a request. */
struct requests : std::enable_shared_from_this<requests> {
	rmsg::listener listener;
	core_ref core;
	std::deque<request> arrived;
	line acceptors;
	bool closed = false;

	void got(request req)
	{
		auto keep = shared_from_this();

		arrived.push_back(std::move(req));
		acceptors.wake_first();
	}
	void drop()
	{
		auto keep = shared_from_this();

		closed = true;
		listener.close();
		arrived.clear();
		acceptors.end_all();
	}
};

class accepting : public waiting {
public:
	accepting(const std::shared_ptr<requests> &r, milliseconds timeout)
		: waiting(r ? &r->acceptors : nullptr,
			  r ? r->core : core_ref(), timeout),
		  requests_(r.get()) {}

	bool ready() override
	{
		if (requests_->closed || requests_->arrived.empty())
			return false;
		req_ = std::move(requests_->arrived.front());
		requests_->arrived.pop_front();
		return true;
	}
	result<request> await_resume()
	{
		if (!status_)
			return status_;
		return { std::move(req_) };
	}

private:
	requests *requests_;
	request req_;
};

/* Ends by its timeout alone. */
class sleeping : public waiting {
public:
	sleeping(core_ref core, milliseconds time)
		: waiting(&own_, std::move(core), time) {}
	~sleeping() override { leave(); }

	bool ready() override { return false; }
	void await_resume() const
	{
		if (status_.status() != -ETIMEDOUT)
			status_.value();
	}

private:
	line own_;
};

/* The cookie of an awaited operation, which may outlive the coroutine. */
struct op_slot : slot {
	std::coroutine_handle<> waiter;
	bool abandoned = false;
	int status = 0;

	op_slot() noexcept { done = finish; }

	static void finish(slot *s, int status)
	{
		auto *o = static_cast<op_slot *>(s);

		o->status = status;
		if (o->abandoned)
			delete o;
		else if (o->waiter)	/* else it is ready when awaited */
			o->waiter.resume();
	}
	struct abandon {
		void operator()(op_slot *o) const noexcept
		{
			if (o->pending)
				o->abandoned = true;
			else
				delete o;
		}
	};
};

/* Waits for the end of the operation. */
struct ending {
	op_slot *slot;

	bool await_ready() const noexcept { return slot->pending == 0; }
	void await_suspend(std::coroutine_handle<> h) const noexcept
	{
		slot->waiter = h;
	}
	result<void> await_resume() const noexcept
	{
		return result<void>(slot->status, "the operation has not been "
				    "completed");
	}
};

/*
 * Begins an operation when there is room, and waits for its end. If the task is
 * destroyed meanwhile the operation goes on: memory that was lent stays lent.
 */
template <class F>
task<result<void>> operate(std::shared_ptr<session> s, F call)
{
	std::unique_ptr<op_slot, op_slot::abandon> slot(new op_slot);
	auto begin = [&](endpoint_ref ep) {
		return call(ep, completion(slot.get()));
	};
	result<void> begun = co_await sending(s, forever, begin);

	if (!begun)
		co_return begun;
	co_return co_await ending{ slot.get() };
}

} /* namespace detail */

/* ---- endpoints -------------------------------------------------------- */

/*
 * The owner of an endpoint that coroutines use; get() has all other calls. What
 * they await ends with an error when the connection or this owner does. Calls
 * throw errors, or with try_ return them.
 */
class endpoint {
public:
	endpoint() noexcept = default;
	explicit endpoint(std::shared_ptr<detail::session> s) noexcept
		: session_(std::move(s)) {}
	endpoint(endpoint &&other) noexcept = default;
	endpoint &operator=(endpoint &&other) noexcept
	{
		std::swap(session_, other.session_);
		return *this;
	}
	~endpoint()
	{
		if (session_)
			session_->drop();
	}

	explicit operator bool() const noexcept { return session_ != nullptr; }
	endpoint_ref get() const noexcept
	{
		return session_ ? session_->ep : endpoint_ref();
	}

	/* ESHUTDOWN: the connection has ended, and there are no more. */
	auto try_recv(milliseconds timeout = forever)
	{
		return detail::receiving(session_, timeout);
	}
	auto recv(milliseconds timeout = forever)
	{
		return detail::throwing(try_recv(timeout));
	}

	/* Waits for room. Copies, as rdmamsg_send(3). */
	auto try_send(bytes data, std::uint32_t tag = 0,
		      milliseconds timeout = forever)
	{
		return detail::sending(session_, timeout,
				       [=](endpoint_ref ep) {
			return ep.try_send(data, tag);
		});
	}
	auto send(bytes data, std::uint32_t tag = 0,
		  milliseconds timeout = forever)
	{
		return detail::throwing(try_send(data, tag, timeout));
	}
	/* On failure the message stays with the caller. */
	template <class Message, class = std::enable_if_t<is_message<Message>>>
	auto try_send(Message &&msg, std::uint32_t tag = 0,
		      milliseconds timeout = forever)
	{
		return detail::sending(session_, timeout,
				       [&msg, tag](endpoint_ref ep) {
			return ep.try_send(std::forward<Message>(msg), tag);
		});
	}
	template <class Message, class = std::enable_if_t<is_message<Message>>>
	auto send(Message &&msg, std::uint32_t tag = 0,
		  milliseconds timeout = forever)
	{
		return detail::throwing(try_send(std::forward<Message>(msg),
						 tag, timeout));
	}

	/* Any size: waits until the peer has the message. */
	auto try_deliver(bytes data, std::uint32_t tag = 0)
	{
		return operate([=](endpoint_ref ep, completion done) {
			return ep.try_sendv({ data }, tag, done);
		});
	}
	auto deliver(bytes data, std::uint32_t tag = 0)
	{
		return detail::throwing(try_deliver(data, tag));
	}

	auto try_write(rdmamsg_sge from, rdmamsg_key key, std::uint64_t offset)
	{
		return operate([=](endpoint_ref ep, completion done) {
			return ep.try_write(from, key, offset, done);
		});
	}
	auto write(rdmamsg_sge from, rdmamsg_key key, std::uint64_t offset)
	{
		return detail::throwing(try_write(from, key, offset));
	}
	auto try_read(rdmamsg_sge into, rdmamsg_key key, std::uint64_t offset)
	{
		return operate([=](endpoint_ref ep, completion done) {
			return ep.try_read(into, key, offset, done);
		});
	}
	auto read(rdmamsg_sge into, rdmamsg_key key, std::uint64_t offset)
	{
		return detail::throwing(try_read(into, key, offset));
	}
	/* old: lent until the end; or nullptr. */
	auto try_fetch_add(rdmamsg_key key, std::uint64_t offset,
			   std::uint64_t add, std::uint64_t *old)
	{
		return operate([=](endpoint_ref ep, completion done) {
			return ep.try_fetch_add(key, offset, add, old, done);
		});
	}
	auto fetch_add(rdmamsg_key key, std::uint64_t offset, std::uint64_t add,
		       std::uint64_t *old)
	{
		return detail::throwing(try_fetch_add(key, offset, add, old));
	}
	auto try_compare_swap(rdmamsg_key key, std::uint64_t offset,
			      std::uint64_t expected, std::uint64_t desired,
			      std::uint64_t *old)
	{
		return operate([=](endpoint_ref ep, completion done) {
			return ep.try_compare_swap(key, offset, expected,
						   desired, old, done);
		});
	}
	auto compare_swap(rdmamsg_key key, std::uint64_t offset,
			  std::uint64_t expected, std::uint64_t desired,
			  std::uint64_t *old)
	{
		return detail::throwing(try_compare_swap(key, offset, expected,
							 desired, old));
	}
	auto try_flush()
	{
		return operate([](endpoint_ref ep, completion done) {
			return ep.try_flush(done);
		});
	}
	auto flush() { return detail::throwing(try_flush()); }

	/* Waits for the end, and returns why. */
	auto try_closed(milliseconds timeout = forever)
	{
		return detail::changing(session_, true, timeout);
	}
	auto closed(milliseconds timeout = forever)
	{
		return detail::throwing(try_closed(timeout));
	}
	/* Closes gracefully, and waits for the end. */
	auto close()
	{
		get().close();
		return closed();
	}

private:
	template <class F> task<result<void>> operate(F call)
	{
		return detail::operate(session_, std::move(call));
	}

	std::shared_ptr<detail::session> session_;
};

namespace detail {

/* Waits until the endpoint is connected. */
inline task<endpoint> connected(std::shared_ptr<session> s)
{
	endpoint ep(s);

	co_await throwing(changing(s, false, forever));
	if (!s->connected)
		throw connection_error(s->ep.why());
	co_return std::move(ep);
}

/* Begins at once with a call that takes the options. */
template <class F>
task<endpoint> begin(const core_ref &core, endpoint_options &&opts, F call)
{
	auto s = std::make_shared<session>();

	s->core = core;
	s->handle(opts.on);
	s->ep = call(std::move(opts));
	return connected(std::move(s));
}

} /* namespace detail */

/*
 * Begins to connect; the task throws connection_error. Sets four of the
 * handlers in 'opts'. g++ 12 and earlier destroy a temporary of this type twice
 * if it is in the expression that is awaited: there the options have a name.
 */
inline task<endpoint> connect(context &ctx, const std::string &host,
			      const std::string &service,
			      endpoint_options &&opts)
{
	return detail::begin(ctx.core(), std::move(opts),
			     [&](endpoint_options &&o) {
		return ctx.connect(host, service, std::move(o));
	});
}
inline task<endpoint> connect(context &ctx, const std::string &host,
			      const std::string &service)
{
	return connect(ctx, host, service, endpoint_options());
}

/* Accepts a request; as connect(). */
inline task<endpoint> accept(request &&req, endpoint_options &&opts)
{
	return detail::begin(req.core(), std::move(opts),
			     [&](endpoint_options &&o) {
		return req.accept(std::move(o));
	});
}
inline task<endpoint> accept(request &&req)
{
	return accept(std::move(req), endpoint_options());
}

/* The owner of a listener whose requests coroutines await. */
class listener {
public:
	/* Sets on_request, and so 'endpoint' has no effect. */
	listener(context &ctx, const std::string &host,
		 const std::string &service, listen_options opts = {})
		: requests_(std::make_shared<detail::requests>())
	{
		requests_->core = ctx.core();
		opts.on_request = [r = requests_.get()](request req) {
			r->got(std::move(req));
		};
		requests_->listener = ctx.listen(host, service,
						 std::move(opts));
	}
	listener(listener &&other) noexcept = default;
	listener &operator=(listener &&other) noexcept
	{
		std::swap(requests_, other.requests_);
		return *this;
	}
	~listener() { close(); }

	rmsg::listener &get() noexcept { return requests_->listener; }
	std::string service() const { return requests_->listener.service(); }

	auto try_next(milliseconds timeout = forever)
	{
		return detail::accepting(requests_, timeout);
	}
	auto next(milliseconds timeout = forever)
	{
		return detail::throwing(try_next(timeout));
	}
	/* Waits for a request, accepts it, and waits for the connection. */
	task<endpoint> accept()
	{
		request req = co_await next();

		co_return co_await co::accept(std::move(req));
	}

	/* A coroutine that waits for a request gets ECANCELED. */
	void close()
	{
		if (requests_)
			requests_->drop();
	}

private:
	std::shared_ptr<detail::requests> requests_;
};

inline auto sleep(context &ctx, milliseconds time)
{
	return detail::sleeping(ctx.core(), time);
}

} /* namespace rmsg::co */

#endif
#endif
