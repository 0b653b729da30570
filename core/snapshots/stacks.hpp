#pragma once

// The stack traces of a snapshot. Equal frames and equal stacks are stored once.

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "pickles/document.hpp"
#include "pickles/intern_index.hpp"
#include "pickles/seeded_hash.hpp"
#include "snapshots/fields.hpp"

namespace memlake::snapshots {

/// Stack k has the frames `frames[starts[k]]` to `frames[starts[k + 1]]`, the last excluded, from the innermost
/// outwards. Stack 0 is empty.
struct StackTable {
  std::vector<std::uint64_t> starts = {0, 0};
  std::vector<std::uint32_t> frames;
  std::vector<std::uint32_t> filename;  ///< of each frame, a place in `texts`
  std::vector<std::uint32_t> line;
  std::vector<std::uint32_t> name;  ///< of each frame, a place in `texts`
  std::vector<std::string> texts;
};

class Stacks {
 public:
  /// `document` must outlive this object. Its allowance also covers the stacks.
  explicit Stacks(pickles::Document& document);

  /// The number of the stack in a field `frames`. 0 if it is no list, or has no frame with a file, a line and a name.
  std::uint32_t number_of(pickles::Value frames);
  StackTable take() { return std::move(table_); }

 private:
  /// The number of a frame; kNone if the value is no frame.
  std::uint32_t frame(pickles::Value value);
  std::uint32_t add_frame(std::uint32_t filename, std::uint32_t line, std::uint32_t name);
  std::uint32_t text(std::uint32_t number);
  [[nodiscard]] std::span<const std::uint32_t> frames_of(std::uint32_t stack) const;
  [[nodiscard]] std::uint64_t hash_frame(std::uint32_t frame) const;

  static constexpr std::uint32_t kNone = pickles::InternIndex::kNone;

  pickles::Document& document_;
  pickles::SeededHash hash_;
  Fields<3> fields_;
  StackTable table_;
  pickles::InternIndex frames_by_content_;
  pickles::InternIndex stacks_by_content_;
  std::unordered_map<std::uint64_t, std::uint32_t> frame_of_dict_;
  std::unordered_map<std::uint32_t, std::uint32_t> place_of_text_;
  /// By the place of the items, which equal lists share.
  std::unordered_map<const pickles::Value*, std::uint32_t> stack_of_items_;
  std::vector<std::uint32_t> found_;
};

}  // namespace memlake::snapshots
