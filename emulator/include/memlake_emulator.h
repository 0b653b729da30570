/* The emulator's own functions, in addition to the CUDA driver's C ABI that it exports.
 *
 * A program under test uses only cu* functions and cannot tell this library from a driver. Tests and memlake itself
 * use the functions here to make devices, to hold and step streams, and to read the ledger.
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

/* Adds devices with new ordinals. `config` has the syntax of the environment variable MEMLAKE_EMULATOR:
 * "devices=2,memory=8GiB,backing=host,profile=strict,..." (docs/reference/emulator.md lists the keys).
 * Works before and after cuInit. post: devices *first .. *first + *count - 1 exist.
 * errors: 1 with a sentence that names the bad key or value; nothing was added. */
int memlakeEmulatorAddDevices(const char* config, int* first, int* count);

/* Removes devices with their chunks, mappings, allocations, contexts, streams and events. Waits for their queued work;
 * work behind a closed gate is dropped. Their ordinals are not reused. Reservations belong to no device and stay.
 * errors: 101 if one of them does not exist (nothing is removed). */
int memlakeEmulatorCloseDevices(int first, int count);

/* Sets *is_host to 1 for backing=host and to 0 for backing=none. errors: 101. */
int memlakeEmulatorIsHostBacked(int device, int* is_host);

/* The reason why the last call of this thread, cu* or memlakeEmulator*, failed; "" if it succeeded or gave no reason.
 * Valid until this thread's next call. */
const char* memlakeEmulatorLastError(void);

/* That reason, if the call was a contract violation; "" otherwise. */
const char* memlakeEmulatorLastViolation(void);

/* The ledger as JSON (UTF-8, NUL-terminated): objects, call counts, violations and warnings. *size: in, the bytes of
 * `buffer`; out, the bytes needed with the NUL. With NULL as `buffer` it only sets the size. errors: 1 if the buffer is
 * too small (nothing is written). */
int memlakeEmulatorLedger(char* buffer, size_t* size);

/* Clears the call counts, violations and warnings. Existing objects stay in the ledger. */
int memlakeEmulatorResetLedger(void);

/* A range of memory that a piece of work reads or writes. */
typedef struct memlakeEmulatorRange {
  uint64_t address;
  uint64_t size;
  int is_write;
} memlakeEmulatorRange;

/* Queues work that stands for a kernel and declares its ranges. `stream` is a CUstream; 0, 1 and 2 are as in CUDA. When
 * the work runs, its device must have access to every range, else the context gets the sticky error 700.
 * errors: 1, 400, 900. */
int memlakeEmulatorLaunch(void* stream, const char* name, const memlakeEmulatorRange* ranges, size_t count);

/* Queues a gate: later work of the stream does not run until the gate is opened. */
int memlakeEmulatorHold(void* stream, uint64_t* gate);
int memlakeEmulatorOpen(uint64_t gate);

/* For devices with streams=manual: runs up to `count` pieces of queued work of a stream, in order, in the calling
 * thread. It stops at work that cannot run yet. *ran is the number of pieces that ran. */
int memlakeEmulatorStep(void* stream, size_t count, size_t* ran);

/* Sets *pending to the number of unfinished pieces of work of this stream. */
int memlakeEmulatorPending(void* stream, size_t* pending);

#ifdef __cplusplus
}
#endif

#endif
