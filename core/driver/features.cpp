#include "driver/features.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"

namespace memlake {
namespace {

constexpr const char* kVariable = "MEMLAKE_FEATURES";
constexpr std::size_t kMostNotices = 100;

struct Notices {
  std::mutex mutex;
  std::vector<std::string> texts;
};

Notices& notices() {
  static auto& all = *new Notices;  // not destroyed at exit: pools may outlive any static
  return all;
}

std::optional<bool> parse_value(std::string_view value) {
  if (value == "yes") return true;
  if (value == "no") return false;
  return std::nullopt;
}

[[noreturn]] void refuse_entry(std::string_view entry) {
  std::string names;
  for (const FeatureText& known : kFeatures) names += (names.empty() ? "" : ", ") + std::string(known.name);
  throw Error(ErrorKind::config, std::string(kVariable) + " has the entry \"" + std::string(entry) +
                                     "\"; write name=yes or name=no, separated by commas, with these names: " + names);
}

}  // namespace

const char* word_of(FeatureSource source) noexcept {
  switch (source) {
    case FeatureSource::attribute:
      return "attribute";
    case FeatureSource::trial:
      return "trial";
    case FeatureSource::environment:
      return "environment";
    case FeatureSource::settings:
      return "settings";
    case FeatureSource::refusal:
      return "refusal";
  }
  return "";
}

std::optional<FeatureAnswer> FeatureTable::find(Feature feature) const {
  const std::lock_guard lock(mutex_);
  return answers_[static_cast<std::size_t>(feature)];
}

void FeatureTable::put(Feature feature, const FeatureAnswer& answer) {
  if (!answer.has) return;
  const std::lock_guard lock(mutex_);
  auto& known = answers_[static_cast<std::size_t>(feature)];
  if (known) return;
  known = answer;
  if (*answer.has) known_yes_.fetch_or(1U << static_cast<unsigned>(feature), std::memory_order_release);
}

void FeatureTable::turn_off(Feature feature, int ordinal, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    auto& known = answers_[static_cast<std::size_t>(feature)];
    const std::uint64_t before = known ? known->refusals : 0;
    known = FeatureAnswer{.has = false, .source = FeatureSource::refusal, .reason = reason, .refusals = before + 1};
    known_yes_.fetch_and(~(1U << static_cast<unsigned>(feature)), std::memory_order_release);
  }
  const std::lock_guard lock(notices().mutex);
  if (notices().texts.size() >= kMostNotices) return;
  notices().texts.push_back("device " + std::to_string(ordinal) + " refused " + text_of(feature).name + " in use (" +
                            reason + "); without it " + text_of(feature).without);
}

std::optional<bool> feature_of_environment(Feature feature) {
  const char* const text = std::getenv(kVariable);
  std::optional<bool> found;
  if (text == nullptr) return found;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    const std::string_view name = entry.substr(0, equals);
    const auto value = equals == std::string_view::npos ? std::nullopt : parse_value(entry.substr(equals + 1));
    bool is_known = false;
    for (std::size_t i = 0; i < kFeatureCount; ++i) {
      if (name != kFeatures[i].name) continue;
      is_known = true;
      if (i == static_cast<std::size_t>(feature)) found = value;
    }
    if (!is_known || !value) refuse_entry(entry);
  }
  return found;
}

std::vector<std::string> take_feature_notices() {
  const std::lock_guard lock(notices().mutex);
  return std::exchange(notices().texts, {});
}

}  // namespace memlake
