/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices and what they can do, the log, names of values. */
#ifndef RDMAMSG_CXX_DEVICE_HPP
#define RDMAMSG_CXX_DEVICE_HPP

#include <string>
#include <vector>

#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/cxx/core.hpp>

namespace rmsg {

namespace detail {

/* Asks how many there are until they fit. */
template <class T, class F> std::vector<T> listed(F call)
{
	std::vector<T> list(8, T());
	std::size_t n;

	for (;;) {
		n = static_cast<std::size_t>(counted(call(
			list.data(), static_cast<int>(list.size()))).value());
		if (n <= list.size())
			break;
		list.resize(n);
	}
	list.resize(n);
	return list;
}

} /* namespace detail */

inline std::vector<rdmamsg_device_attr> devices()
{
	using attr = rdmamsg_device_attr;

	return detail::listed<attr>([](attr *list, int max) {
		return rdmamsg_devices(list, sizeof(*list), max);
	});
}

/* device: nullptr: that of RDMAMSG_DEVICE, else the first. */
inline rdmamsg_device_attr device(const char *device = nullptr)
{
	auto a = detail::sized<rdmamsg_device_attr>();

	result<void>(rdmamsg_device_query(device, &a)).value();
	return a;
}

inline rdmamsg_port_attr port(const char *device, std::uint32_t number)
{
	auto a = detail::sized<rdmamsg_port_attr>();

	result<void>(rdmamsg_port_query(device, number, &a)).value();
	return a;
}

inline std::vector<rdmamsg_gid_attr> gids(const char *device,
					  std::uint32_t port)
{
	using attr = rdmamsg_gid_attr;

	return detail::listed<attr>([&](attr *list, int max) {
		return rdmamsg_port_gids(device, port, list, sizeof(*list),
					 max);
	});
}

inline std::vector<std::uint16_t> pkeys(const char *device, std::uint32_t port)
{
	return detail::listed<std::uint16_t>([&](std::uint16_t *list, int max) {
		return rdmamsg_port_pkeys(device, port, list, max);
	});
}

/* Tries each ability, which takes some ms: not in a callback. */
inline std::vector<rdmamsg_device_cap_attr> capabilities(
	const char *device = nullptr)
{
	using attr = rdmamsg_device_cap_attr;

	return detail::listed<attr>([&](attr *list, int max) {
		return rdmamsg_device_caps(device, list, sizeof(*list), max);
	});
}

inline rdmamsg_device_cap_attr capability(rdmamsg_cap_id id,
					  const char *device = nullptr)
{
	auto a = detail::sized<rdmamsg_device_cap_attr>();

	result<void>(rdmamsg_device_cap_query(device, id, &a)).value();
	return a;
}

/* The name of a value, "" for a bit without one. */
inline const char *name(rdmamsg_name_kind kind, std::uint32_t value) noexcept
{
	const char *text = rdmamsg_name(kind, value);

	return text ? text : "";
}

/* Of the library at run time. */
inline const char *version() noexcept { return rdmamsg_version(); }

} /* namespace rmsg */

#endif
