/* SPDX-License-Identifier: BSD-2-Clause */
/* The GLib adapter: a source for a copy of the context's descriptor. */
#include <rdmamsg/glib.h>

#include "loop/adapter.h"

struct source {
	GSource base;		/* first: the functions get its address */
	struct rdmamsg *ctx;
	int fd;
};

/* GLib neither calls it again inside a callback, nor frees the source then. */
static gboolean dispatch(GSource *base, GSourceFunc fn, gpointer data)
{
	return !adapter_process(((struct source *)base)->ctx);
}

static void finalize(GSource *base)
{
	close(((struct source *)base)->fd);
}

int rdmamsg_glib_start(GMainContext *main_context, struct rdmamsg *ctx,
		       GSource **ret)
{
	/* without prepare and check, GLib looks at the descriptor */
	static GSourceFuncs funcs = {
		.dispatch = dispatch, .finalize = finalize,
	};
	struct source *s;
	int fd;

	if (!ret)
		return -EINVAL;
	fd = adapter_fd(ctx);
	if (fd < 0)
		return fd;
	s = (struct source *)g_source_new(&funcs, sizeof(*s));
	s->ctx = ctx;
	s->fd = fd;
	g_source_add_unix_fd(&s->base, fd, G_IO_IN);
	g_source_set_name(&s->base, "rdmamsg");
	g_source_attach(&s->base, main_context);
	*ret = &s->base;
	return 0;
}

void rdmamsg_glib_stop(GSource *source)
{
	if (!source)
		return;
	g_source_destroy(source);
	g_source_unref(source);
}
