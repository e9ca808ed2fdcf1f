/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions: told once for each send or one-sided operation that has one. */
#ifndef RDMAMSG_CXX_OPERATION_HPP
#define RDMAMSG_CXX_OPERATION_HPP

#include <utility>

#include <rdmamsg/post.h>
#include <rdmamsg/cxx/callback.hpp>
#include <rdmamsg/cxx/result.hpp>

namespace rmsg {

namespace detail {

/* The cookie of an operation. */
struct slot {
	void (*done)(slot *, int status) = nullptr;
	unsigned int pending = 0;

	slot() noexcept = default;
	slot(const slot &) = delete;
	slot &operator=(const slot &) = delete;

	/* of on_complete and, with late, of on_late: may destroy the slot */
	void complete(int status, bool late)
	{
		if (late || status != RDMAMSG_OVERDUE)
			pending--;
		done(this, status);
	}
};

struct operation_slot : slot {
	callback<void(result<void>)> fn;
	unsigned int calls = 0;		/* of fn, now */
	bool orphan = false;		/* the operation is destroyed */

	void free_unused() noexcept
	{
		if (orphan && !pending && !calls)
			delete this;
	}

	/* The callable may destroy the operation, and throw. */
	static void run(slot *s, int status)
	{
		struct call {
			operation_slot *s;

			explicit call(operation_slot *of) : s(of)
			{
				s->calls++;
			}
			call(const call &) = delete;
			call &operator=(const call &) = delete;
			~call()
			{
				s->calls--;
				s->free_unused();
			}
		} c(static_cast<operation_slot *>(s));

		if (!c.s->orphan && c.s->fn)
			c.s->fn(result<void>(status, "the operation has not "
					     "been completed"));
	}
};

} /* namespace detail */

/*
 * Calls a callable whenever an operation ends that was begun with it, with
 * result.status() as in on_complete of rdmamsg_ep_handlers(3). It serves for
 * any number of operations, at the same time, too, and is allocated once. If it
 * is destroyed before they end, nothing is called; memory that was lent stays
 * lent.
 */
class operation {
public:
	explicit operation(callback<void(result<void>)> fn)
		: slot_(new detail::operation_slot)
	{
		slot_->fn = std::move(fn);
		slot_->done = detail::operation_slot::run;
	}
	operation(operation &&other) noexcept
		: slot_(std::exchange(other.slot_, nullptr)) {}
	operation &operator=(operation &&other) noexcept
	{
		std::swap(slot_, other.slot_);
		return *this;
	}
	~operation()
	{
		if (!slot_)
			return;
		slot_->orphan = true;
		slot_->free_unused();
	}

	/* Operations that have not ended. */
	unsigned int pending() const noexcept
	{
		return slot_ ? slot_->pending : 0;
	}

	detail::slot *slot() const noexcept { return slot_; }

private:
	detail::operation_slot *slot_;
};

/* An operation as a call takes it, or nothing: then none is told. */
class completion {
public:
	completion() noexcept = default;
	completion(operation &op) noexcept : slot_(op.slot()) {}
	explicit completion(detail::slot *slot) noexcept : slot_(slot) {}

	/* The cookie of the call whose return value accepted() is given. */
	void *cookie() const noexcept { return slot_; }
	int accepted(int ret) const noexcept
	{
		if (!ret && slot_)
			slot_->pending++;
		return ret;
	}

private:
	detail::slot *slot_ = nullptr;
};

} /* namespace rmsg */

#endif
