/* SPDX-License-Identifier: BSD-2-Clause */
/* compare: the parts that rivals with a driver share. */
#include "rival.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

bool rival_load(const char *library, const struct rival_symbol *symbols)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return false;
	for (; symbols->name; symbols++) {
		void *at = dlsym(lib, symbols->name);

		if (!at)
			return false;
		memcpy(symbols->to, &at, sizeof(at));
	}
	return true;
}

bool rival_loads(const struct rival *r)
{
	pid_t child = fork();
	int status = 1;

	if (!child)
		_exit(r->load() ? 0 : 1);
	return child > 0 && !rival_reap(child, &status) && !status;
}

static void *open_conn(const struct rival_run *run, bool server)
{
	const struct rival *r = run->rival;

	return r->load && !r->load() ? NULL : r->ops->open(run, server);
}

int rival_server(const struct rival_run *run)
{
	void *conn = open_conn(run, true);

	return conn ? rival_serve(run->rival->ops, conn, run->size) : 1;
}

int rival_client(const struct rival_run *run, struct rival_result *ret)
{
	void *conn = open_conn(run, false);

	return conn ? rival_drive(run->rival->ops, conn, run, ret) : 1;
}
