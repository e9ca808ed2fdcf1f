/* SPDX-License-Identifier: BSD-2-Clause */
/* A circular doubly linked list. An unlinked node points to itself. */
#ifndef RDMAMSG_LIB_LIST_H
#define RDMAMSG_LIB_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define list_entry(node, type, member) \
	((type *)((char *)(node) - offsetof(type, member)))
#define list_first(list, type, member) list_entry((list)->next, type, member)
#define list_for_each(n, list) \
	for ((n) = (list)->next; (n) != (list); (n) = (n)->next)
#define list_for_each_safe(n, t, list) \
	for ((n) = (list)->next, (t) = (n)->next; (n) != (list); \
	     (n) = (t), (t) = (n)->next)

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list *l, struct list *n)
{
	n->prev = l->prev;
	n->next = l;
	l->prev->next = n;
	l->prev = n;
}

static inline void list_add(struct list *l, struct list *n)
{
	list_add_tail(l->next, n);
}

/* Has no effect on an unlinked node. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#endif
