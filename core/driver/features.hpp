#pragma once

// FeatureTable: the features that a device and its driver have or lack, as far as they were asked. A question is asked
// once per device (vmm/feature_probe.hpp asks). A feature that the driver refuses later, in use, is turned off.

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memlake {

enum class Feature : std::uint8_t {
#define F(name, what, without) name,
#include "driver/features.inc"
#undef F
};

struct FeatureText {
  const char* name;
  const char* what;     ///< the feature
  const char* without;  ///< what memlake does without it
};

inline constexpr FeatureText kFeatures[] = {
#define F(name, what, without) {#name, what, without},
#include "driver/features.inc"
#undef F
};
inline constexpr std::size_t kFeatureCount = std::size(kFeatures);

[[nodiscard]] constexpr const FeatureText& text_of(Feature feature) {
  return kFeatures[static_cast<std::size_t>(feature)];
}

/// How an answer was found.
enum class FeatureSource : std::uint8_t {
  attribute,    ///< an attribute of the device
  trial,        ///< a trial on the device
  environment,  ///< MEMLAKE_FEATURES says so
  settings,     ///< the device is emulated without bytes, so a trial shows nothing
  refusal,      ///< the driver refused it in use
};
[[nodiscard]] const char* word_of(FeatureSource source) noexcept;

struct FeatureAnswer {
  /// Empty: it could not be asked, for instance because there was no memory for a trial. memlake does without it then,
  /// and asks again the next time.
  std::optional<bool> has;
  FeatureSource source = FeatureSource::trial;
  std::string reason;          ///< why not; "" for yes
  std::uint64_t refusals = 0;  ///< how often the driver refused it in use
};

class FeatureTable {
 public:
  /// Empty until it was asked.
  [[nodiscard]] std::optional<FeatureAnswer> find(Feature feature) const;
  /// Whether the answer is yes. False until it was asked. Takes no lock.
  [[nodiscard]] bool has(Feature feature) const noexcept {
    return (known_yes_.load(std::memory_order_acquire) >> static_cast<unsigned>(feature) & 1U) != 0;
  }
  /// Keeps the first answer that is not empty.
  void put(Feature feature, const FeatureAnswer& answer);
  /// The driver refused it in use: the answer is no from now on. Counts the refusal, and leaves a notice.
  void turn_off(Feature feature, int ordinal, const std::string& reason);

 private:
  mutable std::mutex mutex_;
  std::array<std::optional<FeatureAnswer>, kFeatureCount> answers_;  ///< guarded by mutex_
  std::atomic<std::uint32_t> known_yes_{0};
};

/// What MEMLAKE_FEATURES says about the feature, as in "rdma=no,partial_mapping=no"; empty if it says nothing.
/// Error(config) if the text names another feature or value.
std::optional<bool> feature_of_environment(Feature feature);

/// Sentences about features that were turned off since the last call, of all devices, for a log.
std::vector<std::string> take_feature_notices();

}  // namespace memlake
