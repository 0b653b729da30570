#pragma once

// Makes a PolicyEntry from the struct of a policy's options. Each option is one row with a key and a member. The kind
// of an option follows from the member's type, its default from the struct.

#include <algorithm>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "policies/policy.hpp"

namespace memlake {

template <class Options>
struct OptionRow {
  /// Gives a reference to a value of the options: a member, or a function for a nested value.
  using Member = std::variant<bool Options::*, bool& (*)(Options&), Bytes Options::*, std::uint64_t Options::*,
                              double Options::*, Divisions Options::*, std::string Options::*>;

  const char* key;
  Member member;
  const char* value;  ///< the allowed values: completes "KEY must be ..."
  const char* help;
  bool is_in_mib = false;                     ///< a size that is written in MiB, as in PyTorch
  const char* default_words = nullptr;        ///< for a default that cannot be written as a value
  bool (*accepts)(const Options&) = nullptr;  ///< whether the value is allowed; null: always
};

/// A policy as its folder describes it.
template <class Options>
struct PolicyTable {
  const char* name;
  const char* summary;
  Capabilities capabilities;
  Options defaults;
  std::vector<OptionRow<Options>> rows;
  std::unique_ptr<Space> (*make)(const Options&, const Devices&, EventSource&, std::shared_ptr<Budget>);
  /// Copies those of the pool's arguments that the policy uses.
  void (*take)(Options&, const PoolArguments&) = [](Options&, const PoolArguments&) {};
  /// Sets and checks values that depend on several options. Throws Error(config).
  void (*finish)(Options&, const std::vector<Setting>& given) = [](Options&, const std::vector<Setting>&) {};
};

/// The options of a policy, read from a text.
template <class Options>
class ReadOptions final : public PolicyOptions {
 public:
  ReadOptions(const PolicyTable<Options>& table, const std::vector<Setting>& settings)
      : table_(table), options_(table.defaults) {
    for (const Setting& setting : settings) {
      const auto row =
          std::ranges::find(table.rows, setting.key, [](const auto& known) { return std::string(known.key); });
      read(*row, setting);
    }
    for (const auto& row : table.rows)
      for (const Setting& setting : settings | std::views::reverse)
        if (setting.key == row.key) {
          given_.push_back({setting.key, plain(row, setting)});
          break;
        }
    table.finish(options_, given_);
  }

  [[nodiscard]] std::vector<Setting> given() const override { return given_; }

  [[nodiscard]] SpaceMaker space_maker(const PoolArguments& arguments) const override {
    Options options = options_;
    table_.take(options, arguments);
    return [make = table_.make, options](const Devices& devices, EventSource& events, std::shared_ptr<Budget> budget) {
      return make(options, devices, events, std::move(budget));
    };
  }

  [[nodiscard]] const Options& options() const { return options_; }

 private:
  void read(const OptionRow<Options>& row, const Setting& setting) {
    const auto set = [&]<class Value>(Value& value) {
      if constexpr (std::is_same_v<Value, bool>) {
        value = parse_boolean(setting);
      } else if constexpr (std::is_same_v<Value, Bytes>) {
        value = row.is_in_mib ? parse_mib(setting, row.value) : parse_size(setting, row.value);
      } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
        value = parse_count(setting, row.value);
      } else if constexpr (std::is_same_v<Value, double>) {
        value = parse_number(setting, row.value);
      } else if constexpr (std::is_same_v<Value, std::string>) {
        value = setting.value;
      } else {
        value = parse_divisions(setting, row.value);
      }
    };
    std::visit([&](auto member) { set(std::invoke(member, options_)); }, row.member);
    if (row.accepts != nullptr && !row.accepts(options_)) refuse(setting, row.value);
  }

  static std::string plain(const OptionRow<Options>& row, const Setting& setting) {
    const bool is_size = std::holds_alternative<Bytes Options::*>(row.member) && !row.is_in_mib;
    return is_size ? std::to_string(parse_size(setting).count) : setting.value;
  }

  const PolicyTable<Options>& table_;
  Options options_;
  std::vector<Setting> given_;
};

template <class Options>
Option described(const OptionRow<Options>& row, Options defaults) {
  const auto describe = [&]<class Value>(const Value& value) -> std::pair<const char*, std::string> {
    if constexpr (std::is_same_v<Value, bool>) {
      return {"flag", value ? "True" : "False"};
    } else if constexpr (std::is_same_v<Value, Bytes>) {
      if (row.is_in_mib) return {"mib", std::to_string(value.count / MiB.count)};
      return {"size", size_text(value)};
    } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
      return {"count", std::to_string(value)};
    } else if constexpr (std::is_same_v<Value, double>) {
      return {"number", number_text(value)};
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return {"word", value};
    } else {
      return {"divisions", std::to_string(value.front())};  // by default the same for all sizes
    }
  };
  const auto [kind, text] =
      std::visit([&](auto member) { return describe(std::invoke(member, defaults)); }, row.member);
  return {row.key, kind, row.value, row.default_words == nullptr ? text : row.default_words, row.help};
}

/// `table` must outlive the entry.
template <class Options>
PolicyEntry entry_of(const PolicyTable<Options>& table) {
  PolicyEntry entry{.name = table.name,
                    .summary = table.summary,
                    .capabilities = table.capabilities,
                    .options = {},
                    .read = [&table](const std::vector<Setting>& settings) {
                      return std::make_shared<const ReadOptions<Options>>(table, settings);
                    }};
  if constexpr (!std::is_empty_v<Options>)  // without members there are no rows
    for (const auto& row : table.rows) entry.options.push_back(described(row, table.defaults));
  return entry;
}

}  // namespace memlake
