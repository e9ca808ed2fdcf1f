/* SPDX-License-Identifier: BSD-2-Clause */
/* Private: the owner of an object that its context destroys at its end. */
#ifndef RDMAMSG_CXX_OWNED_HPP
#define RDMAMSG_CXX_OWNED_HPP

#include <type_traits>
#include <utility>

#include <rdmamsg/cxx/core.hpp>

namespace rmsg {

namespace detail {

template <class T, auto Destroy> class owned {
public:
	owned() noexcept = default;
	owned(T *object, core_ref core) noexcept
		: object_(object), core_(std::move(core)) {}
	owned(owned &&other) noexcept
		: object_(std::exchange(other.object_, nullptr)),
		  core_(std::move(other.core_)) {}
	owned &operator=(owned &&other) noexcept
	{
		std::swap(object_, other.object_);
		std::swap(core_, other.core_);
		return *this;
	}
	~owned() { static_cast<void>(destroy()); }

	explicit operator bool() const noexcept { return native() != nullptr; }
	T *native() const noexcept { return core_.ctx() ? object_ : nullptr; }

	/* On failure (EBUSY) the object is still there. */
	result<void> try_destroy() noexcept
	{
		int ret = destroy();

		if (ret == 0)
			object_ = nullptr;
		return result<void>(ret);
	}

private:
	int destroy() noexcept
	{
		using ret = std::invoke_result_t<decltype(Destroy), T *>;

		if constexpr (std::is_void_v<ret>)
			return Destroy(native()), 0;
		else
			return Destroy(native());
	}

	T *object_ = nullptr;
	core_ref core_;
};

/* Makes an Owner with a call of C, which is told where to write the object. */
template <class Owner, class F> result<Owner> own(const core_ref &core, F call)
{
	decltype(std::declval<Owner &>().native()) object = nullptr;
	int ret = call(core.ctx(), &object);

	if (ret)
		return result<void>(ret);
	return Owner(object, core);
}

} /* namespace detail */

} /* namespace rmsg */

#endif
