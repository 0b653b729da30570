/* A pool of GPU memory in plain C, on an emulated GPU: no CUDA is needed to build or to run it.
 *
 *   make -C examples/c && examples/c/pool
 *
 * On a real GPU, leave "driver:emulated,..." out. */
#include <inttypes.h>
#include <memlake.h>
#include <stdio.h>

#define MIB ((size_t)1 << 20)

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, memlake_last_error());
  return 1;
}

int main(void) {
  if (memlake_abi_version() < MEMLAKE_ABI_VERSION) {
    fprintf(stderr, "libmemlake.so is older than memlake.h\n");
    return 1;
  }
  memlake_pool *pool = memlake_pool_create("policy:expandable,limit:64MiB,driver:emulated,memory:1GiB", 0);
  if (pool == NULL) return fail("memlake_pool_create");

  void *first = memlake_pool_allocate(pool, 40 * MIB, NULL);
  if (first == NULL) return fail("memlake_pool_allocate");
  printf("40 MiB at %p\n", first);

  /* Too much: NULL, and a sentence that says why. */
  if (memlake_pool_allocate(pool, 40 * MIB, NULL) != NULL) return 1;
  printf("40 MiB more: %s\n", memlake_last_error());

  if (memlake_pool_free(pool, first) != MEMLAKE_OK) return fail("memlake_pool_free");
  void *second = memlake_pool_allocate(pool, 40 * MIB, NULL);
  printf("reused: %s\n", second == first ? "yes" : "no");
  if (memlake_pool_free(pool, second) != MEMLAKE_OK) return fail("memlake_pool_free");

  /* A mistake is an answer, not a crash. */
  if (memlake_pool_free(pool, second) == MEMLAKE_OK) return 1;
  printf("freed twice: %s\n", memlake_last_error());

  memlake_pool_stats_t stats = {.struct_size = sizeof(stats)};
  if (memlake_pool_stats(pool, &stats) != MEMLAKE_OK) return fail("memlake_pool_stats");
  printf("held at most: %" PRIu64 " MiB for %" PRIu64 " allocations\n", stats.held_peak >> 20, stats.num_allocations);
  if (memlake_pool_destroy(pool) != MEMLAKE_OK) return fail("memlake_pool_destroy");
  return 0;
}
