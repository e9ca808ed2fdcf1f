/* SPDX-License-Identifier: BSD-2-Clause */
/* QSocketNotifier of Qt 5 or 6: qt ADDR */
#include "echo.h"

#include <QCoreApplication>
#include <QSocketNotifier>

int main(int argc, char **argv)
{
	QCoreApplication program(argc, argv);
	if (argc != 2)
		errx(2, "Usage: qt ADDR");

	struct echo e;
	echo_begin(&e, argv[1]);
	{
		QSocketNotifier notifier(rdmamsg_fd(e.ctx),
					 QSocketNotifier::Read);

		QObject::connect(&notifier, &QSocketNotifier::activated, [&] {
			echo_process(&e);
			if (e.done)
				program.quit();
		});
		program.exec();
		/* its end, before the context closes the descriptor */
	}
	return echo_end(&e, "qt");
}
