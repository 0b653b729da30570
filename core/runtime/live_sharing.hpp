#pragma once

// LiveSharing: the part of a live pool for other processes: the spaces whose memory they can be given, and the export.

#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "policies/shareable/shareable_space.hpp"
#include "runtime/locked_pool.hpp"

namespace memlake {

/// A live block in the form that another process can import.
struct ExportedBlock {
  Address address;
  Bytes requested;
  std::vector<ExportedChunk> chunks;
};

/// How a pool shares memory with other processes.
struct Sharing {
  ShareableOptions options = {};
  bool is_default_space = false;  ///< whether requests get shareable memory by default
};

class LiveSharing {
 public:
  LiveSharing(LockedPool& locked, const Sharing& sharing);

  /// The handle types of the pool's memory, as its maker chose them.
  [[nodiscard]] const Sharing& made_with() const noexcept { return sharing_; }
  /// Exports all live blocks in allocation order, all or nothing. Error(invalid_argument) if one is not shareable.
  std::vector<ExportedBlock> export_everything();

  // pre: the lock is held.

  /// Whether requests get shareable memory by default.
  [[nodiscard]] bool is_default() const noexcept { return sharing_.is_default_space; }
  /// The space that serves a request.
  Space& space_for(bool is_shareable);
  /// The space of blocks that are one handle each.
  ShareableSpace& single_space();
  /// Whether the block's memory can be exported.
  [[nodiscard]] bool is_exportable(const Block& block) const { return exporting_space(block) != nullptr; }
  /// Exports the blocks, all or nothing. Error(invalid_argument) if one is not shareable.
  std::vector<ExportedBlock> export_blocks(const std::vector<const Block*>& blocks);
  /// Runs `work`; again if the driver has refused a feature that memory can do without. Each round turns one feature
  /// off, so the rounds end.
  template <class Work>
  auto without_refused_features(Work&& work) {
    while (true) {
      try {
        return work();
      } catch (const Error& error) {
        if (!goes_without_feature(error)) throw;
      }
    }
  }

 private:
  ShareableSpace& add_space(const ShareableOptions& options, bool is_default);
  /// The space of the block if its memory can be exported, else null.
  [[nodiscard]] ShareableSpace* exporting_space(const Block& block) const;
  /// Whether the refused call used a feature that memory can do without. Then that feature is turned off.
  bool goes_without_feature(const Error& error);

  LockedPool& locked_;
  const Sharing sharing_;
  ShareableSpace* shareable_ = nullptr;  // null until it is needed
  ShareableSpace* single_ = nullptr;     // null until it is needed
};

}  // namespace memlake
