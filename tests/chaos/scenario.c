/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of scenarios. A new scenario is a new entry. */
#include "chaos.h"

#include <stdlib.h>
#include <string.h>

#define PAIR	.servers = 1, .clients = 1, .conns = 2
#define MANY	.servers = 2, .clients = 3, .conns = 3
#define MIXED	.count = 1500, .hold = 100, .supply = 200, \
		.scatter = 400, .refuse = 20

const struct scenario scenarios[] = {
	{ "calm", "every kind of message, each connection ends when all is "
	  "received", PAIR, MIXED },
	{ "small", "many small messages", MANY, .sizes = SIZES_SMALL,
	  .count = 20000, .hold = 20 },
	{ "large", "large messages only", PAIR, .sizes = SIZES_LARGE,
	  .count = 200, .hold = 200, .supply = 300 },
	{ "refuse", "on_incoming refuses and supplies memory", PAIR,
	  .sizes = SIZES_LARGE, .count = 400, .refuse = 300, .supply = 400 },
	{ "scatter", "on_incoming names layouts", PAIR, .sizes = SIZES_LARGE,
	  .count = 400, .supply = 900, .scatter = 900 },
	{ "onesided", "writes, reads and atomics between messages", PAIR,
	  .count = 1500, .hold = 50, .onesided = 1000 },
	{ "hold", "receivers hold most messages for a while", PAIR,
	  .count = 1500, .hold = 800, .supply = 200 },
	{ "lent", "the same beyond max_lent", PAIR, .count = 1500, .hold = 900,
	  .max_lent = 1024 },
	{ "tight", "max_registered is small, receivers hold messages", PAIR,
	  .count = 1000, .hold = 500, .max_registered = 24 << 10,
	  .tight = true },
	{ "tight-queue", "the same with messages in the send queue", PAIR,
	  .count = 1000, .hold = 500, .max_registered = 24 << 10,
	  .send_queue = 64, .tight = true },
	{ "credits", "few credits and send requests", MANY, MIXED,
	  .recv_depth = 2, .send_depth = 2 },
	{ "queue", "send_queue holds what has no room", MANY, MIXED,
	  .send_queue = 32, .recv_depth = 4 },
	{ "timeout", "messages have timeouts, processes are stopped", MANY,
	  MIXED, .send_queue = 64, .recv_depth = 8, .timeout = 600,
	  .early = 200, .harm = HARM_STOP, .every_ms = 300 },
	{ "pause", "programs that do not look for a while", MANY, MIXED,
	  .pause = 50 },
	{ "srq", "shared receive queues", MANY, MIXED, .srq_depth = 256, .tight = true,
	  .onesided = 200 },
	{ "srq-tiny", "shared receive queues with hardly any receives", MANY,
	  MIXED, .srq_depth = 48, .recv_depth = 8, .tight = true },
	{ "pools", "buffers from the program's pools", PAIR, MIXED,
	  .pool = 16 << 10, .tight = true },
	{ "close", "closes from both sides under load", MANY, MIXED,
	  .early = 800 },
	{ "oob", "the same without the connection manager", MANY, MIXED,
	  .early = 500, .abort = 100, .oob = true },
	{ "abort", "aborts from both sides under load", MANY, MIXED,
	  .early = 200, .abort = 400, .onesided = 200 },
	{ "kill", "processes are killed", MANY, MIXED, .onesided = 200,
	  .harm = HARM_KILL, .every_ms = 400 },
	{ "stop", "processes are stopped and continued", MANY, MIXED,
	  .harm = HARM_STOP, .every_ms = 500 },
	{ "port", "ports go down and come up", MANY, MIXED,
	  .harm = HARM_PORT | HARM_SILENT, .every_ms = 800 },
	{ "device", "devices are removed and added", MANY, MIXED,
	  .onesided = 200, .harm = HARM_DEVICE, .every_ms = 1000 },
	{ "resume", "devices are removed and added, connections go on", MANY,
	  MIXED, .onesided = 200, .early = 200, .failover = true,
	  .harm = HARM_DEVICE | HARM_SILENT | HARM_STOP, .every_ms = 500 },
	{ "resume-kill", "the same, and processes are killed", MANY, MIXED,
	  .onesided = 200, .failover = true, .harm = HARM_DEVICE | HARM_KILL,
	  .every_ms = 400 },
	{ "resume-timeout", "connections go on, messages have timeouts",
	  MANY, MIXED, .send_queue = 64, .timeout = 600, .early = 100,
	  .abort = 50, .onesided = 200, .failover = true,
	  .harm = HARM_DEVICE | HARM_SILENT | HARM_STOP, .every_ms = 500 },
	{ "loss", "requests are dropped and delayed", PAIR, MIXED,
	  .harm = HARM_LOSS, .every_ms = 1500 },
	{ "inject", "calls below the library fail now and then", PAIR, MIXED,
	  .onesided = 200, .early = 200, .harm = HARM_INJECT },
	{ "files", "descriptors run out", MANY, MIXED, .early = 500,
	  .harm = HARM_FILES, .tight = true },
	{ "all", "everything at once", MANY, .count = 1500, .hold = 200,
	  .supply = 200, .scatter = 300, .refuse = 50, .onesided = 300,
	  .timeout = 200, .pause = 10, .early = 300, .abort = 100,
	  .max_registered = 96 << 10,
	  .harm = HARM_KILL | HARM_STOP | HARM_PORT | HARM_SILENT |
		  HARM_DEVICE | HARM_LOSS | HARM_INJECT, .every_ms = 500,
	  .tight = true },
};

const uint32_t scenario_count = ARRAY_SIZE(scenarios);

bool is_soft_roce(void)
{
	return getenv("RDMAMSG_VM") && !is_iwarp();
}

bool is_iwarp(void)
{
	const char *link = getenv("RDMAMSG_SOFT_LINK");
	const char *driver = getenv("RDMAMSG_VM_DRIVER");

	return (link && !strcmp(link, "iwarp")) ||
	       (driver && !strcmp(driver, "siw"));
}

int scenario_find(const char *name)
{
	for (uint32_t i = 0; i < scenario_count; i++)
		if (!strcmp(scenarios[i].name, name))
			return (int)i;
	return -1;
}
