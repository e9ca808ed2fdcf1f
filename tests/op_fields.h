/* SPDX-License-Identifier: BSD-2-Clause */
/* Every field that an operation does not use is refused, by its name. */
#ifndef RDMAMSG_TESTS_OP_FIELDS_H
#define RDMAMSG_TESTS_OP_FIELDS_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/post.h>

/* Hands the operation to the call that is tested. */
typedef int (*op_poster)(void *object, const struct rdmamsg_op *op);

static const struct op_field {
	const char *name;
	size_t at;
} op_fields[] = {
#define F(name)	{ #name, offsetof(struct rdmamsg_op, name) }
	F(flags), F(cookie), F(sge), F(count), F(tag), F(imm), F(width),
	F(key), F(offset), F(layout), F(len), F(operand), F(compare), F(mask),
	F(compare_mask), F(result),
#undef F
};

static inline void op_field_refused(op_poster post, void *object,
				    struct rdmamsg_op op,
				    const struct op_field *field)
{
	char text[32];
	int ret;

	op.size = sizeof(op);
	((char *)&op)[field->at] |= 1;
	ret = post(object, &op);
	(void)snprintf(text, sizeof(text), "uses no '%s'", field->name);
	if (ret != -EINVAL || !strstr(rdmamsg_error(), text))
		fail_msg("kind %u, %s: %d, %s", op.kind, field->name, ret,
			 rdmamsg_error());
}

/* unused: " tag imm ", the names of the fields that 'op' does not use. */
static inline void op_fields_refused(op_poster post, void *object,
				     struct rdmamsg_op op, const char *unused)
{
	const size_t count = sizeof(op_fields) / sizeof(op_fields[0]);
	char name[32];

	for (size_t i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), " %s ", op_fields[i].name);
		if (strstr(unused, name))
			op_field_refused(post, object, op, &op_fields[i]);
	}
}

/* Kinds that the call does not take. */
static inline void op_kind_refused(op_poster post, void *object, uint32_t kind)
{
	const struct rdmamsg_op op = { .size = sizeof(op), .kind = kind };
	int ret = post(object, &op);

	if (ret != -EOPNOTSUPP || !strstr(rdmamsg_error(), "takes no"))
		fail_msg("kind %u: %d, %s", kind, ret, rdmamsg_error());
}

#endif
