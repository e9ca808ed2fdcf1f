/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: pre-shared keys from bytes and from files, and the proofs that
 * rdmamsg-proto(7) describes.
 */
#include "session/secret.h"
#include "wire/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define OTHER_USER	65534

/* rdmamsg-proto(7) has these numbers of bytes */
_Static_assert(sizeof(PROTO_AUTH_KEY) - 1 == 22, "key");
_Static_assert(sizeof(PROTO_AUTH_INITIATOR) - 1 == 17, "role");

static char dir[] = "/tmp/rdmamsg-secret-XXXXXX";
static char path[64];
static uint8_t bytes[SECRET_MAX + 1];

static void write_key(size_t len, mode_t mode)
{
	int fd;

	/* only root can write to the last one, if that is read-only */
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void assert_refused(const void *key, size_t len, const char *file,
			   int error, const char *word)
{
	struct secret *s = (struct secret *)bytes;

	assert_int_equal(rdmamsg__secret_new(key, len, file, &s), error);
	assert_null(s);
	if (!strstr(rdmamsg_error(), word))
		fail_msg("\"%s\" lacks \"%s\"", rdmamsg_error(), word);
}

static void assert_same(const char *file, size_t len)
{
	struct secret *a, *b;

	assert_int_equal(rdmamsg__secret_new(NULL, 0, file, &a), 0);
	assert_int_equal(rdmamsg__secret_new(bytes, len, NULL, &b), 0);
	assert_memory_equal(a, b, sizeof(*a));
	rdmamsg__secret_free(a);
	rdmamsg__secret_free(b);
}

static void secret__without_a_key_NULL(void **state)
{
	struct secret *s = (struct secret *)bytes;

	assert_int_equal(rdmamsg__secret_new(NULL, 0, NULL, &s), 0);
	assert_null(s);
	rdmamsg__secret_free(s);
}

static void secret__bytes_out_of_range_EINVAL(void **state)
{
	assert_refused(bytes, 0, NULL, -EINVAL, "key of 0 bytes");
	assert_refused(bytes, 15, NULL, -EINVAL, "16 to 4096");
	assert_refused(bytes, 4097, NULL, -EINVAL, "16 to 4096");
	assert_refused(NULL, 16, NULL, -EINVAL, "key is NULL");
	assert_refused(bytes, 16, path, -EINVAL, "one of");
	assert_refused(NULL, 16, path, -EINVAL, "one of");
}

static void secret__from_a_file_ITS_BYTES(void **state)
{
	static const size_t lens[] = { 16, 17, 64, 65, 4096 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		write_key(lens[i], 0600);
		assert_same(path, lens[i]);
	}
	write_key(32, 0400);
	assert_same(path, 32);
}

static void secret__of_each_byte_DIFFERS(void **state)
{
	struct secret *a, *b;

	assert_int_equal(rdmamsg__secret_new(bytes, 32, NULL, &a), 0);
	for (size_t i = 0; i < 33; i++) {
		bytes[i] ^= 0x80;
		assert_int_equal(rdmamsg__secret_new(bytes, 32 + i / 32, NULL,
						     &b), 0);
		bytes[i] ^= 0x80;
		assert_memory_not_equal(a, b, sizeof(*a));
		rdmamsg__secret_free(b);
	}
	rdmamsg__secret_free(a);
}

static void secret__file_that_others_can_read_EACCES(void **state)
{
	static const mode_t modes[] = {
		0604, 0602, 0601, 0644, 0620, 0610, 0660, 0666, 0777,
	};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		write_key(32, modes[i]);
		assert_refused(NULL, 0, path, -EACCES, "chmod 600");
	}
}

/* A file of root may be readable by its group. */
static void secret__file_of_a_group_ONLY_OF_ROOT(void **state)
{
	write_key(32, 0640);
	if (geteuid())
		assert_refused(NULL, 0, path, -EACCES, "chmod 600");
	else
		assert_same(path, 32);
}

static void secret__file_of_another_user_EACCES(void **state)
{
	if (geteuid())
		skip();
	write_key(32, 0600);
	assert_int_equal(chown(path, OTHER_USER, (gid_t)-1), 0);
	assert_refused(NULL, 0, path, -EACCES, "belongs to user 65534");
	/* an own file, now of a user that is not root */
	assert_int_equal(seteuid(OTHER_USER), 0);
	assert_same(path, 32);
	assert_int_equal(chmod(path, 0640), 0);
	assert_refused(NULL, 0, path, -EACCES, "chmod 600");
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(unlink(path), 0);
}

static void secret__unusable_file_SAYS_WHY(void **state)
{
	write_key(15, 0600);
	assert_refused(NULL, 0, path, -EINVAL, "16 to 4096");
	write_key(0, 0600);
	assert_refused(NULL, 0, path, -EINVAL, "16 to 4096");
	write_key(4097, 0600);
	assert_refused(NULL, 0, path, -EINVAL, "16 to 4096");
	assert_int_equal(unlink(path), 0);
	assert_refused(NULL, 0, path, -ENOENT, path);
	assert_refused(NULL, 0, dir, -EINVAL, "regular");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_refused(NULL, 0, path, -EINVAL, "regular");
	assert_int_equal(unlink(path), 0);
}

/* Computed by another implementation of HMAC. */
static void prove__known_values_AS_DOCUMENTED(void **state)
{
	static const char *const right[2] = {
		"05093a52d9a16d0dc12c7f52476ea07adde85f5ed290b0bfc0240aed8238b5bb",
		"955905cc7a9daac5b11500443345343ef010affd81800fce348d7516841e3ecd",
	};
	struct challenge c;
	struct secret *s;
	uint8_t proof[PROTO_PROOF_LEN];
	char text[2 * PROTO_PROOF_LEN + 1];

	memset(c.session, 1, sizeof(c.session));
	memset(c.initiator, 2, sizeof(c.initiator));
	memset(c.responder, 3, sizeof(c.responder));
	assert_int_equal(rdmamsg__secret_new(bytes, 32, NULL, &s), 0);
	for (int initiator = 0; initiator < 2; initiator++) {
		assert_int_equal(rdmamsg__secret_prove(s, &c, initiator, proof),
				 0);
		for (int i = 0; i < PROTO_PROOF_LEN; i++)
			sprintf(text + 2 * i, "%02x", proof[i]);
		assert_string_equal(text, right[initiator]);
	}
	rdmamsg__secret_free(s);
}

static void verify__anything_else_EACCES(void **state)
{
	struct challenge c, other;
	struct secret *s;
	uint8_t proof[PROTO_PROOF_LEN];

	memset(&c, 5, sizeof(c));
	assert_int_equal(rdmamsg__secret_new(bytes, 32, NULL, &s), 0);
	assert_int_equal(rdmamsg__secret_prove(s, &c, true, proof), 0);
	assert_int_equal(rdmamsg__secret_verify(s, &c, true, proof), 0);
	/* the other role, which a reflected proof would have */
	assert_int_equal(rdmamsg__secret_verify(s, &c, false, proof), -EACCES);
	for (size_t i = 0; i < sizeof(c); i++) {
		other = c;
		((uint8_t *)&other)[i] ^= 1;
		assert_int_equal(rdmamsg__secret_verify(s, &other, true, proof),
				 -EACCES);
	}
	for (size_t i = 0; i < sizeof(proof); i++) {
		proof[i] ^= 0x10;
		assert_int_equal(rdmamsg__secret_verify(s, &c, true, proof),
				 -EACCES);
		proof[i] ^= 0x10;
	}
	rdmamsg__secret_free(s);
}

static void nonce__twice_DIFFERS(void **state)
{
	uint8_t a[PROTO_NONCE_LEN], b[PROTO_NONCE_LEN];

	assert_int_equal(rdmamsg__secret_nonce(a), 0);
	assert_int_equal(rdmamsg__secret_nonce(b), 0);
	assert_memory_not_equal(a, b, sizeof(a));
}

/* ---- while the process exits ------------------------------------------ */

static int refusal;			/* of the thread that proves */
static bool in_fork;
static _Atomic bool holds;	/* libcrypto's next malloc() waits */
static _Atomic bool held;
static sem_t inside, go_on, refused;

/* Stands for a thread that gets no processor in the middle of an HMAC(). */
static void *held_malloc(size_t size, const char *file, int line)
{
	if (holds && !held) {
		held = true;
		(void)sem_post(&inside);
		while (sem_wait(&go_on))
			;
	}
	return malloc(size);
}

static void *plain_realloc(void *at, size_t size, const char *file, int line)
{
	return realloc(at, size);
}

static void plain_free(void *at, const char *file, int line)
{
	free(at);
}

/* Lets the HMAC() go on when the process has waited for it in exit(3). */
static void *let_go(void *arg)
{
	(void)nanosleep(&(struct timespec){ .tv_sec = 2 }, NULL);
	(void)sem_post(&go_on);
	return NULL;
}

/*
 * Proves until the library refuses. The thread does not end: what libcrypto does
 * at the end of a thread uses locks that its handler of exit() frees.
 */
static void *prove_on(void *arg)
{
	struct challenge c = { .session = { 1 } };
	uint8_t proof[PROTO_PROOF_LEN];

	do
		refusal = rdmamsg__secret_prove(arg, &c, true, proof);
	while (!refusal);
	(void)sem_post(&refused);
	while (pause())
		;
	return NULL;
}

/* The last handler: that of libcrypto has freed its tables. */
static void last_handler(void)
{
	if (in_fork)
		_exit(0);
	while (sem_wait(&refused))
		;
	_exit(refusal != -ECANCELED);
}

/* A child that has inherited an HMAC() in progress. */
static void fork_and_exit(void)
{
	pid_t pid = fork();
	int end;

	if (!pid) {
		in_fork = true;
		(void)alarm(30);
		exit(0);
	}
	if (waitpid(pid, &end, 0) != pid || end)
		_exit(3);
}

static void hold(const char *mode)
{
	pthread_t other;

	holds = true;
	while (sem_wait(&inside))
		;
	if (!strcmp(mode, "forked"))
		fork_and_exit();
	if (pthread_create(&other, NULL, let_go, NULL) || pthread_detach(other))
		_exit(2);
}

/* Ends its main() while a thread proves. */
static int child(const char *mode)
{
	const bool slow = !strcmp(mode, "slow") || !strcmp(mode, "forked");
	uint8_t digest[EVP_MAX_MD_SIZE];
	pthread_t prover;
	struct secret *s;

	if (sem_init(&inside, 0, 0) || sem_init(&go_on, 0, 0) ||
	    sem_init(&refused, 0, 0) ||
	    (slow && !CRYPTO_set_mem_functions(held_malloc, plain_realloc,
					       plain_free)) ||
	    atexit(last_handler))
		return 2;
	if (!strcmp(mode, "initialised") &&
	    !EVP_Digest(bytes, 32, digest, NULL, EVP_sha256(), NULL))
		_exit(2);
	if (rdmamsg__secret_new(bytes, 32, NULL, &s) ||
	    pthread_create(&prover, NULL, prove_on, s))
		_exit(2);
	if (slow)
		hold(mode);
	return 2;
}

/* A process of its own, because libcrypto ends once for good. */
static void assert_exits(const char *mode)
{
	int end = -1;
	pid_t pid = fork();

	if (!pid) {
		execl("/proc/self/exe", "secret", mode, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &end, 0), pid);
	assert_int_equal(end, 0);
}

static void exit__a_thread_proves_ECANCELED(void **state)
{
	assert_exits("plain");
}

static void exit__program_has_initialised_libcrypto_ECANCELED(void **state)
{
	assert_exits("initialised");
}

static void exit__an_hmac_takes_long_IS_AWAITED(void **state)
{
	assert_exits("slow");
}

static void exit__child_of_a_fork_in_an_hmac_WAITS_FOR_NOBODY(void **state)
{
	assert_exits("forked");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secret__without_a_key_NULL),
		cmocka_unit_test(secret__bytes_out_of_range_EINVAL),
		cmocka_unit_test(secret__from_a_file_ITS_BYTES),
		cmocka_unit_test(secret__of_each_byte_DIFFERS),
		cmocka_unit_test(secret__file_that_others_can_read_EACCES),
		cmocka_unit_test(secret__file_of_a_group_ONLY_OF_ROOT),
		cmocka_unit_test(secret__file_of_another_user_EACCES),
		cmocka_unit_test(secret__unusable_file_SAYS_WHY),
		cmocka_unit_test(prove__known_values_AS_DOCUMENTED),
		cmocka_unit_test(verify__anything_else_EACCES),
		cmocka_unit_test(nonce__twice_DIFFERS),
		cmocka_unit_test(exit__a_thread_proves_ECANCELED),
		cmocka_unit_test(
			exit__program_has_initialised_libcrypto_ECANCELED),
		cmocka_unit_test(exit__an_hmac_takes_long_IS_AWAITED),
		cmocka_unit_test(
			exit__child_of_a_fork_in_an_hmac_WAITS_FOR_NOBODY),
	};
	int ret;

	if (argc > 1)
		return child(argv[1]);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	/* other users may search it, see file_of_another_user */
	(void)chmod(dir, 0755);
	snprintf(path, sizeof(path), "%s/key", dir);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	(void)rmdir(dir);
	return ret;
}
