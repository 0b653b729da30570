/* A C program that uses a policy which only the library of this folder has. */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "memlake.h"

static int failures = 0;

static void expect(int is_true, const char* what) {
  if (is_true) return;
  fprintf(stderr, "not so: %s; the last error is: %s\n", what, memlake_last_error());
  ++failures;
}

int main(void) {
  memlake_pool* const pool = memlake_pool_create("toy,at_most:1MiB,driver:emulated,memory:64MiB,backing:none", 0);
  expect(pool != NULL, "toy is a policy, named first");
  if (pool == NULL) return 1;
  void* const small = memlake_pool_allocate(pool, 4096, NULL);
  expect(small != NULL, "it has memory");
  expect(memlake_pool_allocate(pool, (size_t)2 << 20, NULL) == NULL, "its option holds");
  expect(memlake_pool_free(pool, small) == MEMLAKE_OK, "it takes memory back");
  expect(memlake_pool_destroy(pool) == MEMLAKE_OK, "it ends");
  expect(memlake_pool_create("driver:emulated,policy:toy,at_most:1", 0) == NULL, "a bad value is refused");
  expect(strstr(memlake_last_error(), "at_most must be a size of at least 1 KiB") != NULL, "with a sentence");
  expect(memlake_pool_create("policy:joy", 0) == NULL, "another name is refused");
  expect(strstr(memlake_last_error(), "did you mean toy?") != NULL, "and the sentence knows toy");
  return failures == 0 ? 0 : 1;
}
