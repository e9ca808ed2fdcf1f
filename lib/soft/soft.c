/* SPDX-License-Identifier: BSD-2-Clause */
/* Connects the layers: the calls that lower layers make upward. */
#include "soft/cm/id.h"
#include "soft/control/control.h"
#include "soft/engine/apm.h"
#include "soft/engine/engine.h"
#include "soft/engine/req.h"
#include "soft/engine/resp.h"
#include "soft/fabric/upward.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/upward.h"

static void wire_down(struct soft_dev *dev, struct soft_wire *w)
{
	soft_req_wires_down(dev, w);
	soft_cm_wire_down(dev, w);
}

static void ports(struct soft_dev *dev, const struct soft_faults *were)
{
	soft_async_ports(dev, were);
	soft_apm_ports(dev, were);
}

const struct soft_fabric_upward soft_fabric_upward = {
	.progress = soft_progress,
	.overrun = soft_cq_overruns,
	.wire_down = wire_down,
	.message = soft_cm_message,
	.control = soft_ctl_asked,
	.ports = ports,
	.forked = soft_ctx_forked,
};

const struct soft_verbs_upward soft_verbs_upward = {
	.progress = soft_progress,
	.push = soft_req_push,
	.answer = soft_resp_push,
	.timer = soft_req_timer,
	.migrate = soft_apm_set,
};
