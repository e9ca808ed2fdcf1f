/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leaks of other libraries. librxe keeps its 16 bytes for each
 * protection domain whose device was removed: it frees them only when the
 * kernel's command succeeds (rdma-core v44.0, providers/rxe/rxe.c,
 * rxe_dealloc_pd()).
 */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:librxe-rdmav\n";
}
