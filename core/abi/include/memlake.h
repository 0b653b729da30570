/* memlake's C ABI: pools of GPU memory for any program, and the functions that PyTorch's pluggable allocator calls.
 *
 * The library is libmemlake.so; memlake.native_library() in Python is its path, and this header lies in the folder
 * include/ beside its folder. Plain C99. docs/reference/c_abi.md describes the configuration text.
 *
 * Rules of all functions:
 *   - Any thread may call them.
 *   - A failure changes nothing. The function returns NULL or a negative code (MEMLAKE_ERROR_...), and
 *     memlake_last_error() returns a sentence with the request, the actual state and the remedy.
 *   - No C++ exception leaves the library.
 *   - A stream is a CUstream or a cudaStream_t; NULL is the default stream, not "none". 2 is the per-thread default
 *     stream of the calling thread. A handle that the pool has not seen and that the driver does not know is refused,
 *     except by functions that free. A stream that was passed to a pool must exist as long as the pool: the pool may
 *     pass its handle to the driver at any time.
 *   - An allocation from cached memory and a free in the order of the memory's own stream make no driver call.
 *   - A free is never refused because of its stream. If the stream is capturing a graph, other streams get the memory
 *     after the capture. If it was destroyed, they get it after a wait for the device.
 *   - Memory for a stream that is capturing a graph belongs into a graph pool (memlake_pool_begin_graph()). Without one
 *     it may be allocated, too (not with policy:driver): from the memory that the stream freed before, or new memory.
 * The pool does not know then that a graph uses it: it must stay allocated as long as the graph is launched.
 *   - Driver calls are made in CUDA's relaxed capture mode, and no event is recorded on a stream that is capturing. So
 *     the pool neither spoils the captures of other threads nor fails because of them.
 *   - A forked child must not use its parent's pools. There, every function of a pool fails with
 *     MEMLAKE_ERROR_DRIVER_GONE before it takes a lock.
 *   - Pointers are device addresses: on a real driver the host must not touch them.
 */
#ifndef MEMLAKE_H
#define MEMLAKE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h> /* ssize_t */

#ifdef __cplusplus
extern "C" {
#endif

/* Increases when a version adds functions or fields. A version that changes existing ones gets another soname. */
#define MEMLAKE_ABI_VERSION 4

#if defined(__GNUC__)
#define MEMLAKE_API __attribute__((visibility("default")))
#else
#define MEMLAKE_API
#endif

enum {
  MEMLAKE_OK = 0,
  MEMLAKE_ERROR_CONFIG = -1,           /* the configuration is invalid, or the driver cannot be loaded */
  MEMLAKE_ERROR_INVALID_ARGUMENT = -2, /* an argument is invalid */
  MEMLAKE_ERROR_CLOSED = -3,           /* the pool or its device is closed */
  MEMLAKE_ERROR_INVALID_FREE = -4,     /* freed before, not of this pool, or still in use */
  MEMLAKE_ERROR_OUT_OF_MEMORY = -5,    /* the request found no memory */
  MEMLAKE_ERROR_DRIVER = -6,           /* a call of the driver failed */
  MEMLAKE_ERROR_DRIVER_GONE = -7,      /* this is a forked child, or the driver was shut down */
  MEMLAKE_ERROR_UNKNOWN = -8           /* the host has no memory, or memlake has a bug */
};

/* MEMLAKE_ABI_VERSION of the library that is loaded. */
MEMLAKE_API int memlake_abi_version(void);

/* The reason of the calling thread's latest failure; "" if there was none. A success does not clear it. Valid until the
 * next failure of this thread. Never NULL. */
MEMLAKE_API const char* memlake_last_error(void);

/* The MEMLAKE_ERROR_... of the same failure; MEMLAKE_OK if there was none. For functions that return NULL. */
MEMLAKE_API int memlake_last_error_code(void);

/* ---- pools ---- */

/* Memory of one device under one policy. */
typedef struct memlake_pool memlake_pool;

/* Makes a pool.
 *   conf: "policy:lake,limit:90%,driver:emulated,..."; NULL or "": the defaults. An unknown key is an error that
 *     names the known ones.
 *   device: its ordinal in the driver. With driver:emulated: among the devices of this configuration, from 0.
 * NULL on failure. */
MEMLAKE_API memlake_pool* memlake_pool_create(const char* conf, int device);

/* Gives all its memory back and ends the pool. Refused (MEMLAKE_ERROR_INVALID_FREE, nothing changed) while something
 * allocated from it is live, for a pool that memlake_pool_create() did not make, and the second time. No other thread
 * may be using the pool; later calls with it answer MEMLAKE_ERROR_CLOSED. NULL is refused. */
MEMLAKE_API int memlake_pool_destroy(memlake_pool* pool);

/* Memory for work on `stream`, aligned to 512 bytes. NULL and success for size 0; otherwise NULL is a failure. */
MEMLAKE_API void* memlake_pool_allocate(memlake_pool* pool, size_t size, void* stream);

/* Gives memory back in the order of the stream that it was allocated for: that stream reuses it at once, others when it
 * has passed. NULL: nothing to do. A pointer that is not live in this pool is refused. */
MEMLAKE_API int memlake_pool_free(memlake_pool* pool, void* ptr);

/* Gives memory back in the order of another stream, whose work must be behind all earlier work on the memory. */
MEMLAKE_API int memlake_pool_free_on(memlake_pool* pool, void* ptr, void* stream);

/* Work on another stream uses the memory: once freed, it waits for that stream. */
MEMLAKE_API int memlake_pool_record_stream(memlake_pool* pool, void* ptr, void* stream);

/* Gives cached memory back to the driver as long as at least `keep` bytes stay held. Waits for no stream. */
MEMLAKE_API int memlake_pool_trim(memlake_pool* pool, size_t keep);

/* Counters of a pool, from one moment; bytes unless said otherwise. Later versions append. */
typedef struct memlake_pool_stats_t {
  size_t struct_size; /* in: sizeof(memlake_pool_stats_t); out: how many bytes were filled in */
  uint64_t requested; /* the sizes of requests, until their blocks are free again */
  uint64_t requested_peak;
  uint64_t allocated; /* their blocks with slack, until the call of free */
  uint64_t allocated_peak;
  uint64_t active; /* their blocks with slack, until they are free again */
  uint64_t active_peak;
  uint64_t held; /* physical memory, created and not released (PyTorch: reserved) */
  uint64_t held_peak;
  uint64_t limit; /* the most that the pool may hold; UINT64_MAX: no limit */
  uint64_t num_allocations;
  uint64_t num_frees;
  /* How often the policy gave back all cached memory, and the policy `driver` waited for all streams, to try a request
   * once more. A request may count more than once. */
  uint64_t num_retries;
  uint64_t num_ooms;     /* requests that found no memory */
  uint64_t held_on_host; /* with spill:host: memory on the host beside `held`, which no limit counts */
  uint64_t held_on_host_peak;
  uint64_t graph_held; /* since version 3: the part of `held` that belongs to graph pools */
  uint64_t graph_held_peak;
  uint64_t graph_live; /* since version 3: the part of `allocated` that lies there */
  uint64_t graph_live_peak;
} memlake_pool_stats_t;

MEMLAKE_API int memlake_pool_stats(memlake_pool* pool, memlake_pool_stats_t* stats);

/* ---- since version 2 ---- */

/* As memlake_pool_allocate(), but a refusal is not counted in num_ooms: for a caller that gives memory back elsewhere
 * and then asks again with memlake_pool_allocate(). */
MEMLAKE_API void* memlake_pool_try_allocate(memlake_pool* pool, size_t size, void* stream);

/* All peaks become the present values. */
MEMLAKE_API int memlake_pool_reset_peaks(memlake_pool* pool);

/* The totals `allocated` and `freed` of memlake_pool_counts() and the num_... of both structs become 0. */
MEMLAKE_API int memlake_pool_reset_totals(memlake_pool* pool);

/* A level and its history. */
typedef struct memlake_count_t {
  int64_t current;
  int64_t peak;
  int64_t allocated; /* the sum of all increases */
  int64_t freed;     /* the sum of all decreases */
} memlake_count_t;

/* PyTorch's statistics (torch.cuda.memory_stats) of a pool. Index 0: all; 1: requests of at most 1 MiB; 2: larger ones.
 * A pool counts by size from the first call of memlake_pool_count_by_size() on. */
typedef struct memlake_pool_counts_t {
  size_t struct_size; /* as in memlake_pool_stats_t */
  memlake_count_t allocations[3];
  memlake_count_t segments[3];
  memlake_count_t active[3];
  /* Free blocks of segments that have used ones, too. The pool looks for them when it grows and in
   * memlake_pool_counts(): their peaks and totals are of what was seen then. */
  memlake_count_t inactive_splits[3];
  memlake_count_t allocated_bytes[3];
  memlake_count_t held_bytes[3];
  memlake_count_t active_bytes[3];
  memlake_count_t inactive_split_bytes[3];
  memlake_count_t requested_bytes[3];
  uint64_t num_retries;
  uint64_t num_ooms;
  uint64_t num_device_allocations; /* driver calls that created physical memory; an expandable page is one */
  uint64_t num_device_frees;
  uint64_t num_host_waits;
  uint64_t largest_free;
} memlake_pool_counts_t;

/* Begins with the present values; the totals begin at 0. The second call changes nothing. */
MEMLAKE_API int memlake_pool_count_by_size(memlake_pool* pool);

/* MEMLAKE_ERROR_CONFIG before memlake_pool_count_by_size(). Looks at every block. */
MEMLAKE_API int memlake_pool_counts(memlake_pool* pool, memlake_pool_counts_t* counts);

/* What another allocator of the program has beside the pool: the `current` of each level, until the next call. From now
 * on each `peak` of memlake_pool_counts() is the peak of the sum of both. `current` stays the pool's own. */
MEMLAKE_API int memlake_pool_count_outside(memlake_pool* pool, const memlake_pool_counts_t* outside);

enum { MEMLAKE_BLOCK_FREE = 0, MEMLAKE_BLOCK_LIVE = 1, MEMLAKE_BLOCK_PENDING = 2 };

/* One block of a pool. */
typedef struct memlake_block_t {
  uint64_t address;
  uint64_t size;      /* with slack */
  uint64_t requested; /* 0: free */
  void* stream;       /* the stream it is for; of a free block: the stream that gets it at once */
  uint64_t segment;   /* the address range that it is part of; physical memory is mapped at the blocks alone */
  uint64_t segment_size;
  int32_t device;            /* the number that the pool was made with */
  int32_t state;             /* MEMLAKE_BLOCK_... */
  int32_t is_small;          /* of a request of at most 1 MiB, or in a segment for such */
  int32_t segment_is_mapped; /* 1: the segment is a reservation with mapped chunks; 0: one allocation of the driver */
} memlake_block_t;

/* Calls `visit` for every block that has physical memory, ordered by address, from one moment. The pool is not locked
 * during the calls. A visit that does not return 0 ends it, and its value is returned. */
MEMLAKE_API int memlake_pool_visit_blocks(memlake_pool* pool, int (*visit)(const memlake_block_t* block, void* user),
                                          void* user);

enum {
  MEMLAKE_EVENT_SEGMENT_ALLOC = 1, /* one allocation of the driver */
  MEMLAKE_EVENT_SEGMENT_FREE = 2,
  MEMLAKE_EVENT_SEGMENT_MAP = 3, /* physical memory was mapped at the address */
  MEMLAKE_EVENT_SEGMENT_UNMAP = 4,
  MEMLAKE_EVENT_FREE_COMPLETED = 5 /* a freed block can be used again; `size` is the requested one */
};

typedef struct memlake_event_t {
  int32_t kind; /* MEMLAKE_EVENT_... */
  int32_t device;
  uint64_t address;
  uint64_t size;
  void* stream;
  uint64_t graph_first; /* since version 4: the graph pool whose memory it is; 0 and 0: none */
  uint64_t graph_second;
} memlake_event_t;

/* From now on the pool calls `observe` for each event, in the thread that caused it, in order and under the pool's
 * lock: `observe` must not call memlake. NULL ends it: when this function returns, no call is under way. Destroying the
 * pool causes no events.
 *
 * At every moment the ranges that were mapped or allocated are those of the blocks that memlake_pool_visit_blocks()
 * shows. Memory that a policy maps at a second address is told as unmapped at the first one as long as it is used at
 * the second, so the ranges together are as large as `held` and `held_on_host`. With policy:driver the driver keeps the
 * free memory, and the ranges are those of the live blocks. */
MEMLAKE_API int memlake_pool_observe(memlake_pool* pool, void (*observe)(const memlake_event_t* event, void* user),
                                     void* user);

/* Lets another device use the pool's memory: all of it, also later memory. `device` is counted like that of the pool.
 * Refused if the driver has no way between the two, and if the policy's memory has no access rights per pool
 * (policy:caching, policy:stitch, policy:direct). */
MEMLAKE_API int memlake_pool_enable_peer(memlake_pool* pool, int device);

/* ---- graph pools, since version 3 ----
 *
 * A graph uses the addresses that it saw during its capture at every launch. A graph pool is the memory of one graph,
 * or of several that share it, inside a pool: it keeps its addresses and its chunks and serves no other request, also
 * where it is free, until the last graph gives it up. It counts against the limit of the pool. Memory that is freed in
 * it serves later requests of the same graph pool and stream at once.
 *
 * Two numbers of the caller's choice name it, as PyTorch's MempoolId_t does; not both 0. Any thread may call these
 * functions. */

/* One more graph uses the graph pool; the first one makes it. */
MEMLAKE_API int memlake_pool_use_graph(memlake_pool* pool, uint64_t first, uint64_t second);

/* One more graph uses the graph pool, and from now on requests go there for which `takes` does not return 0. It is
 * called with the stream of each request, in the thread of the request and under the pool's lock: it must not call
 * memlake. NULL: all requests. Of several graph pools that take a request, the one that began first gets it. `user` is
 * passed to `takes`. */
MEMLAKE_API int memlake_pool_begin_graph(memlake_pool* pool, uint64_t first, uint64_t second,
                                         int (*takes)(void* stream, void* user), void* user);

/* Ends the latest memlake_pool_begin_graph() of this graph pool. The graph goes on to use it. When this function
 * returns, no call of `takes` is under way. */
MEMLAKE_API int memlake_pool_end_graph(memlake_pool* pool, uint64_t first, uint64_t second);

/* A graph gives the graph pool up: it was launched for the last time. After the last graph the free memory comes back.
 * may_wait: 1: at once, behind a wait for the device, unless a capture forbids that; 0: when the pool is short of
 * memory or gives back what it caches, or when another graph pool begins after 64 have ended. Allocations that are
 * still live stay valid. Refused: MEMLAKE_ERROR_INVALID_FREE if no graph uses it, MEMLAKE_ERROR_INVALID_ARGUMENT before
 * memlake_pool_end_graph(). */
MEMLAKE_API int memlake_pool_release_graph(memlake_pool* pool, uint64_t first, uint64_t second, int may_wait);

/* The figures of one graph pool, in bytes; all 0 if there is none. Later versions append. */
typedef struct memlake_graph_stats_t {
  size_t struct_size; /* as in memlake_pool_stats_t */
  uint64_t uses;      /* how many graphs use it */
  uint64_t held;
  uint64_t live; /* blocks with slack, until the call of free */
  uint64_t live_peak;
} memlake_graph_stats_t;

MEMLAKE_API int memlake_pool_graph_stats(memlake_pool* pool, uint64_t first, uint64_t second,
                                         memlake_graph_stats_t* stats);

/* As memlake_pool_visit_blocks(), with the graph pool of each block; 0 and 0: none. */
MEMLAKE_API int memlake_pool_visit_graph_blocks(memlake_pool* pool,
                                                int (*visit)(const memlake_block_t* block, uint64_t first,
                                                             uint64_t second, void* user),
                                                void* user);

/* Since version 4. As memlake_pool_try_allocate(), from this graph pool, whatever filters say: for a caller that has
 * decided already where the request goes. MEMLAKE_ERROR_INVALID_ARGUMENT if no graph uses it. */
MEMLAKE_API void* memlake_pool_try_allocate_in_graph(memlake_pool* pool, uint64_t first, uint64_t second, size_t size,
                                                     void* stream);

/* Since version 4. Sets an earlier state of the graph pool again: frees everything that is allocated in it, and
 * allocates `blocks`, live blocks as memlake_pool_visit_graph_blocks() told them at that time. Of each block the
 * address, the size, the requested size and the stream are looked at. All or nothing, unless the host has no memory:
 * everything is checked first. Then `before_free` (may be NULL) is called with each block that will be freed, under the
 * pool's lock: it must not call memlake. MEMLAKE_ERROR_INVALID_ARGUMENT, and nothing has changed: if no graph uses the
 * graph pool, if the bytes of a block are not its memory for that stream any more, if two blocks overlap, if another
 * stream still uses something that is or was allocated there, or if a buffer object of Python has memory of the graph
 * pool. */
MEMLAKE_API int memlake_pool_restore_graph(memlake_pool* pool, uint64_t first, uint64_t second,
                                           const memlake_block_t* blocks, size_t count,
                                           void (*before_free)(const memlake_block_t* block, void* user), void* user);

/* Since version 4. is_captured 0: no graph has captured memory of the graph pool yet, it is only memory apart. Until a
 * request for a capturing stream goes there, or 1 is set, its free memory is its own cache: a request to it that is
 * short of memory releases free pages to make room, and memlake_torch_empty_cache() gives them back. Requests elsewhere
 * do not get it. A new graph pool counts as captured. While it does not, each of its requests makes one driver call.
 * MEMLAKE_ERROR_INVALID_ARGUMENT if no graph uses it. */
MEMLAKE_API int memlake_pool_set_captured(memlake_pool* pool, uint64_t first, uint64_t second, int is_captured);

/* Since version 4. Gives the free memory of a graph pool back that no graph uses any more, behind a wait for the
 * device and for the streams that use what was freed there, unless a capture forbids that. Nothing happens if a graph
 * uses it, or if there is none. */
MEMLAKE_API int memlake_pool_empty_graph(memlake_pool* pool, uint64_t first, uint64_t second);

/* ---- PyTorch ----
 *
 * The types are those of torch.cuda.memory.CUDAPluggableAllocator(path, "memlake_torch_malloc", "memlake_torch_free")
 * and of its set_..._fn hooks. PyTorch asks none of them for an error, so the first failure of each kind is also
 * written to stderr. A device is PyTorch's index; at most 64.
 *
 * The first call for a device makes its pool from the environment variable MEMLAKE_CONF, on libcuda.so.1
 * (driver:emulated: on the emulator), unless memlake_torch_set_pool() gave one. A process that has loaded PyTorch for
 * CUDA (libc10_cuda.so) cannot use the emulator for it: MEMLAKE_ERROR_CONFIG. */

/* NULL and success for 0 bytes; otherwise NULL is a failure, which PyTorch does not notice. */
MEMLAKE_API void* memlake_torch_malloc(ssize_t size, int device, void* stream);

/* Since version 2. As memlake_torch_malloc(), but a failure is one of PyTorch's own C++ exceptions: for a lack of
 * memory the one that Python sees as torch.OutOfMemoryError. The pool counts by size from its first request on. Only
 * for PyTorch, and only if memlake_torch_can_throw(). */
MEMLAKE_API void* memlake_torch_malloc_or_throw(ssize_t size, int device, void* stream);

/* Since version 2. 1 if this process has a PyTorch whose exceptions can be thrown, else 0. */
MEMLAKE_API int memlake_torch_can_throw(void);

/* PyTorch passes the stream of the allocation. `size` is not needed. Refused: a pointer that is not live, and one of
 * another device. NULL: nothing to do. */
MEMLAKE_API void memlake_torch_free(void* ptr, ssize_t size, int device, void* stream);

/* From now on the device's memory comes from this pool; NULL: from a pool made of MEMLAKE_CONF. Earlier
 * allocations are freed in the pool that they came from. memlake keeps the pool until the process ends, because another
 * thread may be about to use it: it can be emptied (memlake_torch_empty_cache) and closed, but is not destroyed. */
MEMLAKE_API int memlake_torch_set_pool(int device, memlake_pool* pool);

/* set_init_fn. Reads MEMLAKE_CONF, so that a mistake in it shows before the first allocation. */
MEMLAKE_API void memlake_torch_init(int ndevices);

/* set_reset_fn: gives all cached memory of all devices back, after waiting for the streams that still use some: of
 * every pool that serves or served PyTorch. */
MEMLAKE_API void memlake_torch_empty_cache(void);

/* set_record_stream_fn. */
MEMLAKE_API void memlake_torch_record_stream(void* ptr, void* stream);

/* set_base_alloc_fn: the begin and the size of the driver's allocation that contains `ptr`. NULL if the memory consists
 * of mapped chunks (policy:lake, policy:expandable, and policy:stitch for requests above 1 MiB): such memory is not
 * one allocation and cannot be shared as one. */
MEMLAKE_API void* memlake_torch_base(void* ptr, size_t* size);

/* set_memory_fraction_fn: the device's pool may hold this share of its memory, and no more than its limit. */
MEMLAKE_API void memlake_torch_fraction(double fraction, int device);

/* ---- since version 2: for an allocator that wraps PyTorch's own ---- */

/* The pool of the device, made from `conf` if it has none (never from MEMLAKE_CONF). NULL on failure. The pool lasts as
 * long as the process: memlake_pool_destroy() refuses it. */
MEMLAKE_API memlake_pool* memlake_torch_pool(int device, const char* conf);

/* Finds live memory of any pool that serves or served PyTorch by the address of its beginning. `hint`: the device to
 * look at first, -1: none. 1: found, and `block` (may be NULL) is filled in; 0: it is not memlake's; negative: an
 * error. Never prints. */
MEMLAKE_API int memlake_torch_find(const void* ptr, int hint, memlake_block_t* block);

/* Frees such memory in the order of the stream that it was allocated for. 1: freed; 0: it is not memlake's, nothing was
 * done. A free is never refused: if the stream is capturing a graph or was destroyed, the memory becomes free later. In
 * a forked child nothing happens and the answer is 1. */
MEMLAKE_API int memlake_torch_release(void* ptr, int hint, memlake_block_t* block);

/* Exports the chunks under such memory, for another process: calls `take` for each chunk, in the order of their
 * addresses, with a new descriptor that `take` must close, and the bytes of the chunk that are mapped. The memory
 * begins `offset` bytes after the beginning of the first chunk. A process with a descriptor can use all that lies in
 * its chunk. The chunks stay under the memory until it is freed. Only for policy:lake, and for pools of
 * memlake_torch_pool(). */
MEMLAKE_API int memlake_torch_export(const void* ptr, int hint, uint64_t* offset,
                                     void (*take)(int fd, uint64_t size, void* user), void* user);

/* Memory of another process, mapped here. */
typedef struct memlake_import memlake_import;

/* Maps chunks of another process side by side, and lets `device` use them. `conf` names the driver, as that of a pool.
 * The caller keeps the descriptors. `address` gets the begin of the first chunk. NULL on failure. */
MEMLAKE_API memlake_import* memlake_torch_import(const char* conf, int device, size_t count, const int* fds,
                                                 const uint64_t* sizes, void** address);

/* Waits for the device, and unmaps the memory. NULL: nothing to do. */
MEMLAKE_API int memlake_torch_end_import(memlake_import* import);

/* The two functions of a torch.cuda.memory.CUDAPluggableAllocator whose memory comes from this pool: for
 * torch.cuda.MemPool(allocator), which takes a NULL for what it is. At most 64 pools at a time have functions. */
MEMLAKE_API int memlake_torch_functions(memlake_pool* pool, void** malloc_function, void** free_function);

/* The functions give no memory any more. They still free, and the pool stays until the last memory is freed. */
MEMLAKE_API int memlake_torch_end_functions(void* malloc_function);

/* Since version 3. The functions of graph pools for the pool that serves a device of PyTorch's; see
 * memlake_pool_begin_graph() and its neighbours. A graph pool stays in the pool in which it began, also if
 * memlake_torch_set_pool() gives the device another one. */
MEMLAKE_API int memlake_torch_use_graph(int device, uint64_t first, uint64_t second);
MEMLAKE_API int memlake_torch_begin_graph(int device, uint64_t first, uint64_t second,
                                          int (*takes)(void* stream, void* user), void* user);
MEMLAKE_API int memlake_torch_end_graph(int device, uint64_t first, uint64_t second);
MEMLAKE_API int memlake_torch_release_graph(int device, uint64_t first, uint64_t second, int may_wait);
/* How many graphs use it; a negative code is a failure. */
MEMLAKE_API int64_t memlake_torch_graph_uses(int device, uint64_t first, uint64_t second);

/* Since version 4. As memlake_torch_find(), with the graph pool of the memory; 0 and 0: none. Each pointer may be
 * NULL. */
MEMLAKE_API int memlake_torch_find_in_graph(const void* ptr, int hint, memlake_block_t* block, uint64_t* first,
                                            uint64_t* second);

#ifdef __cplusplus
}
#endif

#endif /* MEMLAKE_H */
