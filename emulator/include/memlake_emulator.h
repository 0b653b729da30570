/* The emulator's own door, beside the CUDA driver's C ABI that it exports.
 *
 * A program under test uses only cu* functions and cannot tell this library from a driver. A test, and memlake itself,
 * use the functions here to make devices, to hold and step streams, and to ask what exists.
 *
 * All functions are thread-safe. Results are CUresult numbers; after a failure memlakeEmulatorLastError() says why.
 */
#ifndef MEMLAKE_EMULATOR_H
#define MEMLAKE_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds devices with fresh ordinals. `config` has the syntax of the environment variable MEMLAKE_EMULATOR:
 * "devices=2,memory=8GiB,backing=host,profile=strict,..." (docs/reference/emulator.md lists the keys).
 * Works before and after cuInit. post: devices *first .. *first + *count - 1 exist.
 * errors: 1 with a sentence that names the bad key or value; nothing was added. */
int memlakeEmulatorAddDevices(const char* config, int* first, int* count);

/* Removes devices and everything that lives on them (chunks, mappings, allocations, contexts, streams, events). Waits
 * for their queued work; work held by a gate is dropped. Their ordinals are never used again. Reservations are not a
 * device's: they stay. errors: 101 if one of them does not exist (nothing is removed). */
int memlakeEmulatorCloseDevices(int first, int count);

/* "host" or "none" into *is_host (1 / 0). errors: 101. */
int memlakeEmulatorIsHostBacked(int device, int* is_host);

/* Why the last failing call of this thread, cu* or memlakeEmulator*, failed; "" if there is nothing to say. Valid until
 * this thread's next call. */
const char* memlakeEmulatorLastError(void);

/* The same for the last call, only if it was a contract violation; "" otherwise. */
const char* memlakeEmulatorLastViolation(void);

/* Everything that exists, as JSON (UTF-8, NUL-terminated). *size: in, bytes in `buffer`; out, bytes needed with the
 * NUL. `buffer` may be NULL to ask for the size. errors: 1 if the buffer is too small (nothing is written). */
int memlakeEmulatorLedger(char* buffer, size_t* size);

/* Forgets counted calls, violations and warnings; what exists stays. */
int memlakeEmulatorResetLedger(void);

/* A piece of device work that declares what it touches, like a kernel. */
typedef struct memlakeEmulatorRange {
  uint64_t address;
  uint64_t size;
  int is_write;
} memlakeEmulatorRange;

/* Queues such work on a stream (a CUstream; 0, 1 and 2 as in CUDA). When it runs, its device must have the rights to
 * every range, else the context gets the sticky error 700. errors: 1, 400, 900. */
int memlakeEmulatorLaunch(void* stream, const char* name, const memlakeEmulatorRange* ranges, size_t count);

/* Queues a gate: what comes behind it on the stream does not run until the gate is opened. */
int memlakeEmulatorHold(void* stream, uint64_t* gate);
int memlakeEmulatorOpen(uint64_t gate);

/* Streams of devices with streams=manual: runs up to `count` pieces of queued work of one stream, in order, in the
 * calling thread, as far as they are able to run; *ran says how many did. */
int memlakeEmulatorStep(void* stream, size_t count, size_t* ran);

/* How many pieces of work of this stream are not finished. */
int memlakeEmulatorPending(void* stream, size_t* pending);

#ifdef __cplusplus
}
#endif

#endif
