#pragma once

// Emulated devices for one test, and questions to the ledger about what is left.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "driver/library.hpp"

namespace memlake::test {

/// The emulator, loaded and initialised.
Library& emulator();

/// Adds devices for a scope. What lives on them afterwards is removed with them.
class EmulatedDevices {
 public:
  explicit EmulatedDevices(const std::string& config = "devices=1,memory=64MiB,backing=none");
  EmulatedDevices(const EmulatedDevices&) = delete;
  EmulatedDevices& operator=(const EmulatedDevices&) = delete;
  ~EmulatedDevices();

  std::shared_ptr<Device> operator[](std::size_t index) const;
  OrdinalRange ordinals() const noexcept { return ordinals_; }
  void close();

 private:
  OrdinalRange ordinals_;
  bool is_open_ = true;
};

/// How many entries the ledger's list ("chunks", "mappings", "reservations", ...) has.
std::size_t ledger_count(const std::string& list);

/// What could be left behind.
struct Holdings {
  std::size_t reservations = ledger_count("reservations");
  std::size_t chunks = ledger_count("chunks");
  std::size_t mappings = ledger_count("mappings");
  std::size_t streams = ledger_count("streams");
  std::size_t events = ledger_count("events");

  friend bool operator==(const Holdings&, const Holdings&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Holdings& h);
};

}  // namespace memlake::test
