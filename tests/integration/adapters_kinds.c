/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of each loop and its adapter. */
#include "adapters.h"

#include <stddef.h>
#include <stdlib.h>

/* A timer of any loop. */
struct tick {
	void (*fn)(void *arg);
	void *arg;
};

/* ---- libev ------------------------------------------------------------ */

#ifdef WITH_EV
#include <rdmamsg/ev.h>

struct ev_tick {
	struct ev_timer timer;	/* first: on_ev_tick() gets its address */
	struct ev_loop *loop;
	struct tick tick;
};

static void *ev_make(void)
{
	return ev_loop_new(0);
}

static void ev_end(void *loop)
{
	ev_loop_destroy(loop);
}

static void ev_turn(void *loop)
{
	ev_run(loop, EVRUN_ONCE);
}

static void ev_run_all(void *loop)
{
	ev_run(loop, 0);
}

static void ev_quit(void *loop)
{
	ev_break(loop, EVBREAK_ALL);
}

static int ev_begin(void *loop, struct rdmamsg *ctx, void **ret)
{
	return rdmamsg_ev_start(loop, ctx, (struct rdmamsg_ev **)ret);
}

static void ev_cease(void *adapter)
{
	rdmamsg_ev_stop(adapter);
}

static void on_ev_tick(struct ev_loop *loop, struct ev_timer *timer, int what)
{
	struct tick *t = &((struct ev_tick *)timer)->tick;

	t->fn(t->arg);
}

static void *ev_ticks(void *loop, unsigned int ms, void (*fn)(void *arg),
		      void *arg)
{
	struct ev_tick *t = calloc(1, sizeof(*t));

	t->tick = (struct tick){ fn, arg };
	t->loop = loop;
	ev_timer_init(&t->timer, on_ev_tick, ms / 1e3, ms / 1e3);
	ev_timer_start(loop, &t->timer);
	return t;
}

static void ev_ticks_stop(void *timer)
{
	struct ev_tick *t = timer;

	ev_timer_stop(t->loop, &t->timer);
	free(t);
}
#endif

/* ---- libevent --------------------------------------------------------- */

#ifdef WITH_EVENT
#include <rdmamsg/event.h>

struct event_tick {
	struct event *event;
	struct tick tick;
};

static void *event_make(void)
{
	return event_base_new();
}

static void event_end(void *base)
{
	event_base_free(base);
}

static void event_turn(void *base)
{
	event_base_loop(base, EVLOOP_ONCE);
}

static void event_run_all(void *base)
{
	event_base_dispatch(base);
}

static void event_quit(void *base)
{
	event_base_loopbreak(base);
}

static int event_begin(void *base, struct rdmamsg *ctx, void **ret)
{
	return rdmamsg_libevent_start(base, ctx,
				      (struct rdmamsg_libevent **)ret);
}

static void event_cease(void *adapter)
{
	rdmamsg_libevent_stop(adapter);
}

static void on_event_tick(evutil_socket_t fd, short what, void *arg)
{
	struct tick *t = &((struct event_tick *)arg)->tick;

	t->fn(t->arg);
}

static void *event_ticks(void *base, unsigned int ms, void (*fn)(void *arg),
			 void *arg)
{
	struct timeval every = { ms / 1000, ms % 1000 * 1000 };
	struct event_tick *t = calloc(1, sizeof(*t));

	t->tick = (struct tick){ fn, arg };
	t->event = event_new(base, -1, EV_PERSIST, on_event_tick, t);
	event_add(t->event, &every);
	return t;
}

static void event_ticks_stop(void *timer)
{
	struct event_tick *t = timer;

	event_free(t->event);
	free(t);
}
#endif

/* ---- GLib ------------------------------------------------------------- */

#ifdef WITH_GLIB
#include <rdmamsg/glib.h>

struct glib_loop {
	GMainContext *context;
	GMainLoop *loop;
};

struct glib_tick {
	GSource *source;
	struct tick tick;
};

static void *glib_make(void)
{
	struct glib_loop *l = calloc(1, sizeof(*l));

	l->context = g_main_context_new();
	l->loop = g_main_loop_new(l->context, FALSE);
	return l;
}

static void glib_end(void *loop)
{
	struct glib_loop *l = loop;

	g_main_loop_unref(l->loop);
	g_main_context_unref(l->context);
	free(l);
}

static void glib_turn(void *loop)
{
	g_main_context_iteration(((struct glib_loop *)loop)->context, TRUE);
}

static void glib_run_all(void *loop)
{
	g_main_loop_run(((struct glib_loop *)loop)->loop);
}

static void glib_quit(void *loop)
{
	g_main_loop_quit(((struct glib_loop *)loop)->loop);
}

static int glib_begin(void *loop, struct rdmamsg *ctx, void **ret)
{
	return rdmamsg_glib_start(loop ? ((struct glib_loop *)loop)->context :
				  NULL, ctx, (GSource **)ret);
}

static void glib_cease(void *adapter)
{
	rdmamsg_glib_stop(adapter);
}

static gboolean on_glib_tick(gpointer arg)
{
	struct tick *t = &((struct glib_tick *)arg)->tick;

	t->fn(t->arg);
	return G_SOURCE_CONTINUE;
}

static void *glib_ticks(void *loop, unsigned int ms, void (*fn)(void *arg),
			void *arg)
{
	struct glib_tick *t = calloc(1, sizeof(*t));

	t->tick = (struct tick){ fn, arg };
	t->source = g_timeout_source_new(ms);
	g_source_set_callback(t->source, on_glib_tick, t, NULL);
	g_source_attach(t->source, ((struct glib_loop *)loop)->context);
	return t;
}

static void glib_ticks_stop(void *timer)
{
	struct glib_tick *t = timer;

	g_source_destroy(t->source);
	g_source_unref(t->source);
	free(t);
}
#endif

/* ---- libuv ------------------------------------------------------------ */

#ifdef WITH_UV
#include <rdmamsg/uv.h>

struct uv_tick {
	uv_timer_t timer;	/* first: the callbacks get its address */
	struct tick tick;
};

static void *uv_make(void)
{
	uv_loop_t *loop = malloc(sizeof(*loop));

	uv_loop_init(loop);
	return loop;
}

/* Handles that are closing end in the run. */
static void uv_end(void *loop)
{
	uv_run(loop, UV_RUN_DEFAULT);
	if (uv_loop_close(loop))
		abort();
	free(loop);
}

static void uv_turn(void *loop)
{
	uv_run(loop, UV_RUN_ONCE);
}

static void uv_run_all(void *loop)
{
	uv_run(loop, UV_RUN_DEFAULT);
}

static void uv_quit(void *loop)
{
	uv_stop(loop);
}

static int uv_begin(void *loop, struct rdmamsg *ctx, void **ret)
{
	return rdmamsg_uv_start(loop, ctx, (struct rdmamsg_uv **)ret);
}

static void uv_cease(void *adapter)
{
	rdmamsg_uv_stop(adapter);
}

static void on_uv_tick(uv_timer_t *timer)
{
	struct tick *t = &((struct uv_tick *)timer)->tick;

	t->fn(t->arg);
}

static void *uv_ticks(void *loop, unsigned int ms, void (*fn)(void *arg),
		      void *arg)
{
	struct uv_tick *t = calloc(1, sizeof(*t));

	t->tick = (struct tick){ fn, arg };
	uv_timer_init(loop, &t->timer);
	uv_timer_start(&t->timer, on_uv_tick, ms, ms);
	return t;
}

static void on_uv_tick_closed(uv_handle_t *handle)
{
	free(handle);
}

static void uv_ticks_stop(void *timer)
{
	uv_close(timer, on_uv_tick_closed);
}
#endif

#define KIND(name, symbol, prefix) \
	{ name, symbol, prefix##_make, prefix##_end, prefix##_turn, \
	  prefix##_run_all, prefix##_quit, prefix##_begin, prefix##_cease, \
	  prefix##_ticks, prefix##_ticks_stop }

const struct loop_kind loop_kinds[] = {
#ifdef WITH_EV
	KIND("ev", "rdmamsg_ev_start", ev),
#endif
#ifdef WITH_EVENT
	KIND("event", "rdmamsg_libevent_start", event),
#endif
#ifdef WITH_GLIB
	KIND("glib", "rdmamsg_glib_start", glib),
#endif
#ifdef WITH_UV
	KIND("uv", "rdmamsg_uv_start", uv),
#endif
	{ .name = NULL },
};
