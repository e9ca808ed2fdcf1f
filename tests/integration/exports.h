/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that the library exports, from its dynamic symbol table: a new
 * one cannot be forgotten.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_EXPORTS_H
#define RDMAMSG_TESTS_INTEGRATION_EXPORTS_H

#include <dlfcn.h>
#include <link.h>

struct exports {
	const void *inside;		/* any address in the library */
	uintptr_t base;
	const ElfW(Sym) *symbols;
	const char *names;
	const uint32_t *hash;		/* of DT_GNU_HASH */
};

/* Some C libraries relocate the addresses in the dynamic section. */
static inline const void *exports_at(const struct exports *e, ElfW(Addr) addr)
{
	return (const void *)(addr < e->base ? e->base + addr : addr);
}

static inline void exports_dynamic(struct exports *e, const ElfW(Dyn) *d)
{
	for (; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			e->symbols = exports_at(e, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			e->names = exports_at(e, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			e->hash = exports_at(e, d->d_un.d_ptr);
	}
}

static inline int exports_object(struct dl_phdr_info *info, size_t size,
				 void *arg)
{
	struct exports *e = arg;
	const ElfW(Dyn) *dynamic = NULL;
	bool here = false;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + h->p_vaddr;

		if (h->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)at;
		else if (h->p_type == PT_LOAD)
			here |= (uintptr_t)e->inside - at < h->p_memsz;
	}
	if (!here || !dynamic)
		return 0;
	e->base = info->dlpi_addr;
	exports_dynamic(e, dynamic);
	return 1;
}

/* Finds the exports of the library that has this symbol. */
static inline struct exports exports_of(const char *symbol)
{
	struct exports e = { .inside = dlsym(RTLD_DEFAULT, symbol) };

	if (!e.inside || !dl_iterate_phdr(exports_object, &e) || !e.symbols ||
	    !e.names || !e.hash)
		fail_msg("no symbol table with %s", symbol);
	return e;
}

/*
 * Calls fn() for each function. The table of hashes: the number of buckets, of
 * the first symbol with a hash, and of the words of a filter; a shift; the
 * filter; the buckets; and a word for each symbol, which is odd for the last
 * one of a bucket.
 */
static inline void exports_each(const struct exports *e,
				void (*fn)(const char *name, void *addr))
{
	uint32_t buckets = e->hash[0], first = e->hash[1];
	const uint32_t *bucket = e->hash + 4 +
				 e->hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;

	for (uint32_t b = 0; b < buckets; b++) {
		if (!bucket[b])
			continue;
		for (uint32_t i = bucket[b]; ; i++) {
			const ElfW(Sym) *s = &e->symbols[i];

			if ((s->st_info & 0xf) == STT_FUNC && s->st_value)
				fn(e->names + s->st_name,
				   (void *)(e->base + s->st_value));
			if (chain[i - first] & 1)
				break;
		}
	}
}

#endif
