/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg for C++17 and later: the one header that a program includes. It needs
 * no library besides librdmamsg, and the manual of the C interface describes
 * what each call does; see bindings/cxx/README for what is different here.
 *
 * The namespace is rmsg, because 'rdmamsg' is a struct of the C interface.
 */
#ifndef RDMAMSG_RDMAMSG_HPP
#define RDMAMSG_RDMAMSG_HPP

#include <rdmamsg/cxx/bytes.hpp>
#include <rdmamsg/cxx/callback.hpp>
#include <rdmamsg/cxx/chain.hpp>
#include <rdmamsg/cxx/context.hpp>
#include <rdmamsg/cxx/coroutine.hpp>
#include <rdmamsg/cxx/device.hpp>
#include <rdmamsg/cxx/endpoint.hpp>
#include <rdmamsg/cxx/group.hpp>
#include <rdmamsg/cxx/layout.hpp>
#include <rdmamsg/cxx/listener.hpp>
#include <rdmamsg/cxx/memory.hpp>
#include <rdmamsg/cxx/message.hpp>
#include <rdmamsg/cxx/operation.hpp>
#include <rdmamsg/cxx/options.hpp>
#include <rdmamsg/cxx/result.hpp>
#include <rdmamsg/cxx/rma.hpp>
#include <rdmamsg/cxx/team.hpp>
#include <rdmamsg/cxx/timer.hpp>

#endif
