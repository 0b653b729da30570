#include "vmm/imported_memory.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace memlake {

namespace {

/// Whether the driver says that what it was given cannot be meant, and not that it lacks something.
bool is_about_the_arguments(const Error& error) {
  return error.answer() != nullptr && (error.kind() == ErrorKind::invalid_call || error.kind() == ErrorKind::other);
}

std::vector<std::shared_ptr<PhysicalChunk>> import_chunks(std::span<const ImportedMemory::Part> parts) {
  std::vector<std::shared_ptr<PhysicalChunk>> chunks;
  chunks.reserve(parts.size());
  for (const ImportedMemory::Part& part : parts) {
    try {
      chunks.push_back(std::make_shared<PhysicalChunk>(PhysicalChunk::import_fd(part.device, part.fd, part.size)));
    } catch (const Error& error) {
      if (!is_about_the_arguments(error)) throw;
      throw Error(ErrorKind::config, "the descriptor of chunk " + std::to_string(chunks.size()) + " of " +
                                         std::to_string(parts.size()) +
                                         " cannot be opened as device memory: it is closed, or something else, or of "
                                         "another driver; " +
                                         error.what());
    }
  }
  return chunks;
}

StitchedRange stitch_imported(std::span<const ImportedMemory::Part> parts,
                              std::span<const std::shared_ptr<Device>> users, CUmemAccess_flags rights) {
  const auto chunks = import_chunks(parts);
  if (chunks.empty()) throw Error(ErrorKind::invalid_argument, "there are no chunks to import");
  try {
    return stitch(parts.front().device, chunks, users, rights);
  } catch (const Error& error) {
    if (!is_about_the_arguments(error) || std::string_view(error.answer()->call) != "cuMemMap") throw;
    throw Error(ErrorKind::config, std::string("a chunk is smaller than the share says; ") + error.what());
  }
}

}  // namespace

ImportedMemory::ImportedMemory(std::span<const Part> parts, std::span<const std::shared_ptr<Device>> users,
                               CUmemAccess_flags rights)
    : devices_(users.begin(), users.end()),
      stitched_(stitch_imported(parts, users, rights)),
      range_(stitched_.reservation->range()) {
  for (const Part& part : parts)
    if (std::ranges::find(devices_, part.device) == devices_.end()) devices_.push_back(part.device);
}

ImportedMemory::~ImportedMemory() {
  ownership_.end_quietly([this] { give_up(); });
}

void ImportedMemory::close() {
  ownership_.end("the shared buffer", [this] { give_up(); });
}

void ImportedMemory::give_up() {
  // Unmapping does not wait for the device.
  for (const auto& device : devices_)
    if (device->can_undo()) device->synchronize();
  std::vector<Mapping*> run;
  for (Mapping& mapping : stitched_.mappings) run.push_back(&mapping);
  Mapping::close_run(run);
  stitched_.mappings.clear();
  stitched_.reservation.reset();
}

}  // namespace memlake
