/* SPDX-License-Identifier: BSD-2-Clause */
/* Boost.Asio: asio ADDR */
#include "echo.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

using boost::asio::posix::stream_descriptor;

/* Each wait completes once, at once if the descriptor is readable. */
static void wait(stream_descriptor &fd, struct echo &e)
{
	fd.async_wait(stream_descriptor::wait_read,
		      [&](const boost::system::error_code &failed) {
			      if (failed)
				      return;
			      echo_process(&e);
			      if (!e.done)
				      wait(fd, e);
		      });
}

int main(int argc, char **argv)
{
	if (argc != 2)
		errx(2, "Usage: asio ADDR");

	struct echo e;
	echo_begin(&e, argv[1]);
	{
		boost::asio::io_context loop;
		stream_descriptor fd(loop, echo_descriptor(&e));

		wait(fd, e);
		loop.run();
	}
	return echo_end(&e, "asio");
}
