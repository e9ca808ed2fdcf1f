/* SPDX-License-Identifier: BSD-2-Clause */
/* Views of memory: of any contiguous container, and as std::span in C++20. */
#ifndef RDMAMSG_CXX_BYTES_HPP
#define RDMAMSG_CXX_BYTES_HPP

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __has_include(<span>) && __cplusplus >= 202002L
#include <span>
#endif
#endif

namespace rmsg {

/* A view owns nothing, and is valid as long as the memory. */
template <class Byte> class basic_bytes {
	/* memory that Byte may be a view of, by a pointer to its elements */
	template <class T>
	static constexpr bool fits = std::is_trivially_copyable_v<T> &&
		(std::is_const_v<Byte> || !std::is_const_v<T>);
	template <class C> using pointer =
		decltype(std::data(std::declval<C &>()));
	template <class C> static constexpr bool holds =
		std::is_pointer_v<pointer<C>> &&
		fits<std::remove_pointer_t<pointer<C>>>;

public:
	constexpr basic_bytes() noexcept = default;

	constexpr basic_bytes(std::conditional_t<std::is_const_v<Byte>,
			      const void, void> *data, std::size_t len) noexcept
		: data_(static_cast<Byte *>(data)), size_(len) {}

	/* A container that has data() and size(), or an array. */
	template <class C, class = std::enable_if_t<
		!std::is_same_v<std::decay_t<C>, basic_bytes> &&
		holds<std::remove_reference_t<C>>>>
	basic_bytes(C &&c) noexcept
		: basic_bytes(std::data(c),
			      std::size(c) * sizeof(*std::data(c))) {}

	/* Text without its terminating zero. */
	template <class B = Byte, class = std::enable_if_t<std::is_const_v<B>>>
	basic_bytes(const char *text) noexcept
		: basic_bytes(std::string_view(text)) {}

	constexpr Byte *data() const noexcept { return data_; }
	constexpr std::size_t size() const noexcept { return size_; }
	constexpr bool empty() const noexcept { return size_ == 0; }
	constexpr Byte *begin() const noexcept { return data_; }
	constexpr Byte *end() const noexcept { return data_ + size_; }

	std::string_view text() const noexcept
	{
		return { reinterpret_cast<const char *>(data_), size_ };
	}

#if defined(__cpp_lib_span)
	constexpr operator std::span<Byte>() const noexcept
	{
		return { data_, size_ };
	}
#endif

private:
	Byte *data_ = nullptr;
	std::size_t size_ = 0;
};

using bytes = basic_bytes<const std::byte>;	/* to read */
using buffer = basic_bytes<std::byte>;		/* to write as well */

/* The bytes of one object. */
template <class T> buffer bytes_of(T &object) noexcept
{
	static_assert(std::is_trivially_copyable_v<T>);
	return { &object, sizeof(object) };
}

template <class T> bytes bytes_of(const T &object) noexcept
{
	static_assert(std::is_trivially_copyable_v<T>);
	return { &object, sizeof(object) };
}

} /* namespace rmsg */

#endif
