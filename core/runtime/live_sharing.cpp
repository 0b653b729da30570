#include "runtime/live_sharing.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "driver/result.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

namespace {

/// Why a block that was not allocated to be shared cannot be exported, and what to do. It advises no argument that the
/// pool would refuse.
std::string why_not_exported(const Devices& devices, Location location) {
  for (const auto& device : devices) {
    const FeatureAnswer answer = ask_feature(device, Feature::file_descriptors);
    if (!answer.has.value_or(false))
      return "device " + std::to_string(device->ordinal()) +
             " cannot hand memory to other processes as file descriptors (" + answer.reason +
             "); send the bytes instead, for instance with copy_to()";
  }
  if (location != Location::device)
    return "the memory of this pool lies on the host, and the driver exports only memory of devices; make a pool on "
           "the device for the memory that other processes are given";
  return "the memory was not allocated to be shared, so its chunks may hold other buffers, too; allocate it with "
         "shareable=True, or make the pool with handle_type=\"posix_fd\"";
}

}  // namespace

LiveSharing::LiveSharing(LockedPool& locked, const Sharing& sharing) : locked_(locked), sharing_(sharing) {
  if (sharing_.is_default_space) shareable_ = &add_space(sharing_.options, true);
}

ShareableSpace& LiveSharing::add_space(const ShareableOptions& options, bool is_default) {
  auto space = std::make_unique<ShareableSpace>(locked_.devices(), options, locked_.streams().events,
                                                locked_.pool().spaces().budget());
  space->set_unlocker(locked_.unlocker());
  ShareableSpace& added = *space;
  locked_.pool().spaces().add(std::move(space), is_default);
  return added;
}

ShareableSpace& LiveSharing::single_space() {
  if (single_ == nullptr) {
    ShareableOptions options = sharing_.options;
    options.is_single = true;
    single_ = &add_space(options, false);
  }
  return *single_;
}

ShareableSpace* LiveSharing::exporting_space(const Block& block) const {
  const Space* space = &locked_.pool().spaces().of(block);
  for (ShareableSpace* exporting : {shareable_, single_})
    if (exporting == space && exporting->is_exportable()) return exporting;
  return nullptr;
}

bool LiveSharing::goes_without_feature(const Error& error) {
  if (error.answer() == nullptr || error.kind() == ErrorKind::contract_violation) return false;
  const std::string_view call = error.answer()->call;
  const int code = error.answer()->code;
  const bool is_create = call == "cuMemCreate";
  const bool is_refusal = code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_NOT_SUPPORTED ||
                          code == CUDA_ERROR_NOT_PERMITTED || code == CUDA_ERROR_UNKNOWN;
  if (!is_refusal || !(is_create || call == "cuMemSetAccess")) return false;
  const ChunkExports* exports = locked_.pool().spaces().policy().facets().chunk_exports;
  const bool makes_exportable = exports != nullptr && exports->makes_exportable_chunks();
  // The one that fewest machines have comes first.
  const std::pair<Feature, bool> candidates[] = {
      {Feature::rdma, true},
      {Feature::fabric_handles, is_create && sharing_.options.more_handle_types != 0},
      {Feature::file_descriptors, is_create && makes_exportable}};
  for (const auto& [feature, is_used] : candidates) {
    bool was_on = false;
    for (const auto& device : locked_.devices()) {
      if (!is_used || !device->features().has(feature)) continue;
      device->features().turn_off(feature, device->ordinal(), error.what());
      was_on = true;
    }
    if (was_on) return true;
  }
  return false;
}

Space& LiveSharing::space_for(bool is_shareable) {
  if (!is_shareable) return locked_.pool().spaces().policy();
  if (shareable_ == nullptr) shareable_ = &add_space(sharing_.options, false);
  return *shareable_;
}

std::vector<ExportedBlock> LiveSharing::export_blocks(const std::vector<const Block*>& blocks) {
  for (const Block* block : blocks)
    if (exporting_space(*block) == nullptr)
      throw Error(ErrorKind::invalid_argument,
                  why_not_exported(locked_.devices(), locked_.pool().spaces().policy().devices().location()));
  std::vector<ExportedBlock> exported;
  exported.reserve(blocks.size());
  for (const Block* block : blocks)
    exported.push_back({block->address, block->requested, exporting_space(*block)->descriptors_of(*block)});
  // From here on nothing fails.
  for (const Block* block : blocks) exporting_space(*block)->note_export(*block);
  return exported;
}

std::vector<ExportedBlock> LiveSharing::export_everything() {
  const auto lock = locked_.open_lock();
  std::vector<const Block*> live;
  locked_.pool().spaces().for_each([&](const Block& block) {
    if (block.state == BlockState::live) live.push_back(&block);
  });
  std::ranges::sort(live, {}, &Block::id);
  return export_blocks(live);
}

}  // namespace memlake
