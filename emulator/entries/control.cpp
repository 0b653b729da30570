// The functions of memlake_emulator.h.

#include <cstring>

#include "entries/entry.hpp"
#include "include/memlake_emulator.h"
#include "process/transfer.hpp"

#define MEMLAKE_CONTROL __attribute__((visibility("default")))

namespace memlake::emulator {

namespace {

/// Like enter(), but it works before cuInit and is not counted among the driver's calls.
template <class Body>
int control(const void* caller, Body&& body) {
  return static_cast<int>(enter(Call::control, caller, std::forward<Body>(body), Need::nothing));
}

/// The emulator's own functions go on in a locked process, but it gets no new work.
void check_not_locked(const Session& session) {
  if (session.driver.checkpoint.is_closed())
    refuse(CUDA_ERROR_ILLEGAL_STATE, "the process is locked (cuCheckpointProcessLock) and gets no new work");
}

CUstream as_stream(void* stream) { return static_cast<CUstream>(stream); }

}  // namespace

extern "C" {

MEMLAKE_CONTROL int memlakeEmulatorAddDevices(const char* config, int* first, int* count) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    required(first, "first");
    required(count, "count");
    const GroupConfig group = parse_config(required(config, "config") == '\0' ? "" : config);
    *first = session.driver.add_devices(group);
    *count = group.devices;
  });
}

MEMLAKE_CONTROL int memlakeEmulatorCloseDevices(int first, int count) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    if (count < 1) invalid("count is ", count);
    for (int i = 0; i < count; ++i) driver.devices.find(first + i);  // ends at the last device, before it overflows
    for (int i = 0; i < count; ++i)
      if (Device* device = driver.devices.find_open(first + i)) driver.close_device(session.lock, *device);
  });
}

MEMLAKE_CONTROL int memlakeEmulatorIsHostBacked(int device, int* is_host) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    required(is_host, "is_host");
    *is_host = session.driver.devices.find(device).is_host_backed() ? 1 : 0;
  });
}

MEMLAKE_CONTROL const char* memlakeEmulatorLastError(void) { return last_error().sentence.c_str(); }

MEMLAKE_CONTROL const char* memlakeEmulatorLastViolation(void) {
  return last_error().is_violation ? last_error().sentence.c_str() : "";
}

MEMLAKE_CONTROL int memlakeEmulatorLedger(char* buffer, size_t* size) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    required(size, "size");
    const std::string json = session.driver.ledger_json(session.lock);
    const std::size_t room = buffer == nullptr ? 0 : *size;
    *size = json.size() + 1;
    if (buffer == nullptr) return;
    if (room < json.size() + 1) invalid("the ledger needs ", json.size() + 1, " bytes, the buffer has ", room);
    std::memcpy(buffer, json.c_str(), json.size() + 1);
  });
}

MEMLAKE_CONTROL int memlakeEmulatorResetLedger(void) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    session.driver.ledger.reset();
    session.driver.skipped.reset();
  });
}

MEMLAKE_CONTROL int memlakeEmulatorLaunch(void* stream, const char* name, const memlakeEmulatorRange* ranges,
                                          size_t count) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    required(name, "name");
    if (count > 0) required(ranges, "ranges");
    check_not_locked(session);
    std::vector<Touch> touches;
    for (size_t i = 0; i < count; ++i) {
      if (ranges[i].size == 0) invalid("range ", i, " is empty");
      touches.push_back({ranges[i].address, ranges[i].size, ranges[i].is_write != 0});
    }
    Stream& queue = driver.streams.find(as_stream(stream));
    if (driver.captures.is_capturing(queue)) {
      driver.captures.add(queue, DeclaredNode{name, std::move(touches)}, session.origin);
      return;
    }
    Work work = declared_work(driver, name, session.origin, touches, queue.context);
    driver.pools.allocations().check_made(driver.streams.before(queue), work.touches);
    std::string gone;
    for (const Touch& touch : work.touches)
      if (gone.empty()) gone = driver.memory.why_gone(touch);
    if (!gone.empty()) work.check = [gone] { return gone; };
    driver.enqueue(queue, std::move(work));
    for (const Touch& touch : touches)
      if (driver.memory.is_managed(touch.address)) driver.managed.touch_by(*queue.device, touch);
  });
}

MEMLAKE_CONTROL int memlakeEmulatorHold(void* stream, uint64_t* gate) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    required(gate, "gate");
    check_not_locked(session);
    auto& streams = session.driver.streams;
    *gate = streams.hold(streams.find(as_stream(stream)), session.origin);
  });
}

MEMLAKE_CONTROL int memlakeEmulatorOpen(uint64_t gate) {
  return control(MEMLAKE_CALLER, [&](Session& session) { session.driver.streams.open(gate); });
}

MEMLAKE_CONTROL int memlakeEmulatorStep(void* stream, size_t count, size_t* ran) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    required(ran, "ran");
    auto& streams = session.driver.streams;
    *ran = streams.step(session.lock, streams.find(as_stream(stream)), count);
  });
}

MEMLAKE_CONTROL int memlakeEmulatorPending(void* stream, size_t* pending) {
  return control(MEMLAKE_CALLER, [&](Session& session) {
    required(pending, "pending");
    auto& streams = session.driver.streams;
    Stream& asked = streams.find(as_stream(stream));
    *pending = asked.queue.size();
    if (*pending == 0 && asked.capture == nullptr) (void)streams.query(asked);
  });
}

}  // extern "C"

}  // namespace memlake::emulator
