#include "emulated.hpp"

#include <ostream>

#include "base/undo_failure.hpp"
#include "test.hpp"

namespace memlake::test {

Library& emulator() {
  static Library& library = [&]() -> Library& {
    Library& loaded = Library::load(MEMLAKE_EMULATOR_LIBRARY);
    // Devices first: an emulator without any makes a default one when it starts.
    loaded.emulator().add_devices("devices=1,memory=64MiB,backing=none");
    loaded.initialize();
    // An undo call that a real driver would not survive must not go unnoticed.
    set_undo_failure_hook([](const Error& error) {
      if (error.kind() == ErrorKind::contract_violation) fail(error.what(), std::source_location::current());
    });
    return loaded;
  }();
  return library;
}

EmulatedDevices::EmulatedDevices(const std::string& config) : ordinals_(emulator().emulator().add_devices(config)) {}

EmulatedDevices::~EmulatedDevices() {
  emulator().failing().clear();
  if (is_open_) close();
}

std::shared_ptr<Device> EmulatedDevices::operator[](std::size_t index) const {
  return emulator().device(ordinals_.first + static_cast<int>(index));
}

void EmulatedDevices::close() {
  emulator().close_devices(ordinals_);
  is_open_ = false;
}

std::size_t ledger_count(const std::string& list) {
  const std::string ledger = emulator().emulator().ledger();
  const std::string key = "\"" + list + "\"";
  const std::size_t found = ledger.find(key);
  const std::size_t begin = found == std::string::npos ? found : ledger.find('[', found);
  if (begin == std::string::npos) throw std::runtime_error("the ledger has no list " + list);
  // Objects directly in the list; their strings have no brackets that are not in pairs.
  std::size_t count = 0;
  int depth = 0;
  for (std::size_t i = begin; i < ledger.size(); ++i) {
    if (ledger[i] == '{' && depth == 1) ++count;
    if (ledger[i] == '{' || ledger[i] == '[') ++depth;
    if (ledger[i] == '}' || ledger[i] == ']') --depth;
    if (depth == 0) break;
  }
  return count;
}

std::ostream& operator<<(std::ostream& out, const Holdings& h) {
  return out << h.reservations << " reservations, " << h.chunks << " chunks, " << h.mappings << " mappings, "
             << h.streams << " streams, " << h.events << " events";
}

}  // namespace memlake::test
