#include "code/images/ptx.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "basics/refusal.hpp"
#include "basics/rounding.hpp"
#include "code/images/ptx_words.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kLargestVariable = std::uint64_t{1} << 40;
constexpr std::size_t kMostVariables = 1'000'000;

struct TypeSize {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<TypeSize, 26> kTypes{
    {{".b8", 1},    {".u8", 1},     {".s8", 1},      {".e4m3", 1}, {".e5m2", 1},      {".b16", 2}, {".u16", 2},
     {".s16", 2},   {".f16", 2},    {".bf16", 2},    {".b32", 4},  {".u32", 4},       {".s32", 4}, {".f32", 4},
     {".f16x2", 4}, {".tf32", 4},   {".bf16x2", 4},  {".b64", 8},  {".u64", 8},       {".s64", 8}, {".f64", 8},
     {".b128", 16}, {".texref", 8}, {".surfref", 8}, {".pred", 1}, {".samplerref", 8}}};

/// One declared variable or parameter.
struct Variable {
  std::string_view name;
  std::uint64_t size = 0;
  std::uint64_t alignment = 1;
  bool is_managed = false;
  bool is_unsized = false;  ///< declared as name[]
  std::uint64_t element = 1;
  std::vector<char> initial = {};
};

class Reader {
 public:
  explicit Reader(std::string_view text) : words_(text) {}

  Ptx read() {
    if (!words_.accept(".version")) bad("PTX begins with .version");
    ptx_.language = version();
    if (!words_.accept(".target")) bad("after .version comes .target");
    ptx_.image.ptx_version = target();
    while (!words_.is_at_end()) statement();
    std::uint64_t constant = 0;
    for (const GlobalImage& global : ptx_.image.globals)
      if (global.kind == GlobalImage::Kind::constant) constant += global.size;
    for (KernelImage& kernel : ptx_.image.kernels) kernel.constant = constant;
    return std::move(ptx_);
  }

 private:
  [[noreturn]] void bad(std::string_view why) const {
    refuse(CUDA_ERROR_INVALID_PTX, "the PTX is not valid in line ", words_.line(), ": ", why, "; '",
           words_.word().substr(0, 40), "' was read");
  }

  void expect(std::string_view word) {
    if (!words_.accept(word)) bad(text("'", word, "' is expected"));
  }

  std::uint64_t number() {
    std::string_view word = words_.take();
    int base = 10;
    if (word.starts_with("0x") || word.starts_with("0X")) {
      word.remove_prefix(2);
      base = 16;
    }
    if (word.ends_with("U")) word.remove_suffix(1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (error != std::errc{} || end != word.data() + word.size()) bad(text("'", word, "' is not a number"));
    return value;
  }

  int version() {
    const std::uint64_t major = number();
    std::string_view minor = words_.take();  // ".0"
    std::uint64_t value = 0;
    if (minor.starts_with('.')) minor.remove_prefix(1);
    const auto [end, error] = std::from_chars(minor.data(), minor.data() + minor.size(), value);
    if (error != std::errc{} || end != minor.data() + minor.size() || major > 99 || value > 9)
      bad("the version is not a number such as 8.0");
    return static_cast<int>(major * 10 + value);
  }

  /// "sm_80, debug": the number of the architecture.
  int target() {
    std::string_view name = words_.take();
    if (!name.starts_with("sm_") && !name.starts_with("compute_")) bad("the target is not an architecture");
    name.remove_prefix(name.find('_') + 1);
    int architecture = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), architecture);
    if (error != std::errc{} || architecture < 10 || architecture > 999) bad("the target is not an architecture");
    while (words_.accept(",")) words_.advance();
    return architecture;
  }

  void statement() {
    bool is_extern = false;
    while (words_.word() == ".visible" || words_.word() == ".weak" || words_.word() == ".extern" ||
           words_.word() == ".common")
      is_extern = words_.take() == ".extern" || is_extern;
    const std::string_view directive = words_.word();
    if (directive == ".entry") {
      entry();
    } else if (directive == ".func") {
      skip_function();
    } else if (directive == ".global" || directive == ".const" || directive == ".shared") {
      words_.advance();
      for (Variable& variable : variables()) keep(directive, is_extern, std::move(variable));
    } else if (directive == ".section") {
      while (!words_.is_at_end() && words_.word() != "{") words_.advance();
      skip_braces();
    } else if (directive == ".file" || directive == ".loc" || directive == ".address_size" || directive == ".target") {
      skip_line();
    } else if (directive.starts_with('.')) {  // .pragma, .alias and others end with a semicolon
      while (!words_.is_at_end() && words_.word() != ";") words_.advance();
      expect(";");
    } else if (!words_.accept(";")) {
      bad("a directive is expected");
    }
  }

  void skip_line() {
    const unsigned line = words_.line();
    while (!words_.is_at_end() && words_.line() == line) words_.advance();
  }

  void skip_braces() {
    expect("{");
    for (unsigned depth = 1; depth > 0;) {
      if (words_.is_at_end()) bad("a brace is not closed");
      const std::string_view word = words_.take();
      if (word == "{") ++depth;
      if (word == "}") --depth;
    }
  }

  void skip_function() {
    while (!words_.is_at_end() && words_.word() != "{" && words_.word() != ";") words_.advance();
    if (!words_.accept(";")) skip_braces();
  }

  void entry() {
    words_.advance();
    KernelImage kernel{.name = std::string(words_.take()), .registers = kRegistersOfPtx};
    if (kernel.name.empty() || kernel.name == "(" || kernel.name == "{") bad("a kernel has no name");
    if (words_.accept("(") && !words_.accept(")")) parameters(kernel);
    bounds(kernel);
    const std::size_t index = ptx_.image.kernels.size();
    if (words_.accept(";")) return;  // only declared
    ptx_.image.kernels.push_back(std::move(kernel));
    body(index);
  }

  void parameters(KernelImage& kernel) {
    std::uint64_t end = 0;
    do {
      expect(".param");
      const Variable variable = declaration();
      const std::uint64_t offset = round_up(end, variable.alignment);
      end = offset + variable.size;
      if (variable.size == 0 || end > kMostParameterBytes) bad("the parameters are too large, or one has no size");
      kernel.parameters.push_back({offset, variable.size});
    } while (words_.accept(","));
    expect(")");
  }

  void bounds(KernelImage& kernel) {
    while (words_.word().starts_with('.')) {
      const std::string_view directive = words_.take();
      std::vector<std::uint64_t> values;
      while (!words_.is_at_end() && words_.word() != "{" && words_.word() != ";" && !words_.word().starts_with('.')) {
        const char first = words_.word().front();
        if (first >= '0' && first <= '9') {
          values.push_back(std::min(number(), std::uint64_t{1} << 20));
        } else {
          words_.advance();
        }
      }
      if (directive == ".maxntid" || directive == ".reqntid") {
        kernel.max_threads = 1;
        for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 3); ++i) kernel.max_threads *= values[i];
      } else if (directive == ".maxnreg" && !values.empty()) {
        kernel.registers = static_cast<int>(std::clamp<std::uint64_t>(values.front(), 1, 255));
      } else if (directive == ".reqnctapercluster") {
        for (std::size_t i = 0; i < 3; ++i)
          kernel.cluster[i] = i < values.size() ? static_cast<unsigned>(values[i]) : 1;
      }
    }
  }

  void body(std::size_t index) {
    expect("{");
    is_after_mark_ = true;
    std::unordered_set<std::string_view> used;
    std::uint64_t shared = 0;
    std::uint64_t local = 0;
    for (unsigned depth = 1; depth > 0;) {
      if (words_.is_at_end()) bad("the body of a kernel is not closed");
      const std::string_view word = words_.take();
      if (word == "{") ++depth;
      if (word == "}") --depth;
      // A declaration, and not the state space of an instruction such as ld.shared.u32 (those follow a name at once).
      const bool begins = word == ".shared" || word == ".local";
      if (begins && (words_.word() == ".align" || is_type(words_.word())) && is_after_mark_) {
        for (const Variable& variable : variables()) (word == ".shared" ? shared : local) += variable.size;
        is_after_mark_ = true;
        continue;
      }
      is_after_mark_ = word == ";" || word == "{" || word == "}" || word == ":";
      if (!module_shared_.empty() && is_module_shared(word) && used.insert(word).second)
        for (const Variable& variable : module_shared_)
          if (variable.name == word) shared += variable.size;
    }
    ptx_.image.kernels[index].shared = shared;
    ptx_.image.kernels[index].local = local;
  }

  [[nodiscard]] bool is_module_shared(std::string_view word) const {
    return std::ranges::find(module_shared_, word, &Variable::name) != module_shared_.end();
  }

  static bool is_type(std::string_view word) {
    return word == ".v2" || word == ".v4" || std::ranges::find(kTypes, word, &TypeSize::name) != kTypes.end();
  }

  /// The declaration of one variable after its state space: attributes, alignment, type, name, dimensions.
  Variable declaration() {
    Variable variable;
    std::uint64_t lanes = 1;
    std::uint64_t alignment = 0;
    std::optional<std::uint64_t> bytes;
    while (words_.word().starts_with('.')) {
      const std::string_view directive = words_.take();
      if (directive == ".align") {
        alignment = number();
      } else if (directive == ".v2" || directive == ".v4") {
        lanes = directive == ".v2" ? 2 : 4;
      } else if (directive == ".attribute") {
        expect("(");
        while (!words_.is_at_end() && words_.word() != ")") variable.is_managed |= words_.take() == ".managed";
        expect(")");
      } else if (const auto type = std::ranges::find(kTypes, directive, &TypeSize::name); type != kTypes.end()) {
        bytes = type->bytes;
      } else if (directive == ".ptr") {  // its state space and alignment describe what the pointer points to
        while (words_.word().starts_with('.'))
          if (words_.take() == ".align") number();
      }
    }
    if (!bytes) bad("a variable has no type");
    variable.element = *bytes;
    variable.size = *bytes * lanes;
    variable.alignment = alignment != 0 ? alignment : variable.size;
    if ((variable.alignment & (variable.alignment - 1)) != 0 || variable.alignment > 4096)
      bad("an alignment is not a power of two");
    dimensions(variable);
    return variable;
  }

  void dimensions(Variable& variable) {
    variable.name = words_.take();
    if (variable.name.empty()) bad("a variable has no name");
    while (words_.accept("[")) {
      if (words_.accept("]")) {
        variable.is_unsized = true;
        continue;
      }
      const std::uint64_t count = number();
      expect("]");
      if (count > kLargestVariable / std::max<std::uint64_t>(variable.size, 1)) bad("a variable is too large");
      variable.size *= count;
    }
  }

  /// The variables of one declaration statement, with their initial values, up to the semicolon.
  std::vector<Variable> variables() {
    std::vector<Variable> declared;
    declared.push_back(declaration());
    const std::uint64_t alignment = declared.front().alignment;
    const std::uint64_t element = declared.front().element;
    const bool is_managed = declared.front().is_managed;
    while (true) {
      if (words_.accept("=")) initial_value(declared.back());
      if (!words_.accept(",")) break;
      Variable& next = declared.emplace_back(
          Variable{.name = {}, .size = element, .alignment = alignment, .is_managed = is_managed, .element = element});
      dimensions(next);
    }
    expect(";");
    for (Variable& variable : declared)
      if (variable.is_unsized) variable.size = variable.initial.size();
    return declared;
  }

  /// Reads numbers. An address or another expression counts as zero.
  void initial_value(Variable& variable) {
    unsigned depth = 0;
    bool is_negative = false;
    bool has_value = false;
    std::uint64_t value = 0;
    const auto put = [&] {
      if (!has_value) return;
      if (is_negative) value = ~value + 1;
      const auto* bytes = reinterpret_cast<const char*>(&value);
      if (variable.initial.size() + variable.element > kLargestVariable) bad("an initial value is too large");
      variable.initial.insert(variable.initial.end(), bytes, bytes + std::min<std::uint64_t>(variable.element, 8));
      variable.initial.resize(variable.initial.size() + (variable.element > 8 ? variable.element - 8 : 0));
      has_value = is_negative = false;
      value = 0;
    };
    while (!words_.is_at_end() && words_.word() != ";" && !(depth == 0 && words_.word() == ",")) {
      const std::string_view word = words_.take();
      if (word == "{") {
        ++depth;
      } else if (word == "}" || word == ",") {
        put();
        if (word == "}" && depth > 0) --depth;
      } else if (word == "-") {
        is_negative = true;
      } else if (!has_value) {
        has_value = true;
        value = literal(word);
      }
    }
    put();
    if (!variable.is_unsized && variable.initial.size() > variable.size) bad("a variable has too many initial values");
  }

  /// 12, 0x1F, 0f3F800000 (the bits of a float) or 0d3FF0000000000000; 0 for anything else.
  static std::uint64_t literal(std::string_view word) {
    int base = 10;
    if (word.size() > 2 && word[0] == '0' && std::strchr("xXfFdD", word[1]) != nullptr) {
      word.remove_prefix(2);
      base = 16;
    }
    if (word.ends_with('U')) word.remove_suffix(1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    return error == std::errc{} && end == word.data() + word.size() ? value : 0;
  }

  void keep(std::string_view space, bool is_extern, Variable variable) {
    if (ptx_.image.globals.size() + module_shared_.size() > kMostVariables) bad("there are too many variables");
    if (space == ".shared") {
      if (!is_extern) module_shared_.push_back(std::move(variable));
      return;
    }
    if (is_extern || variable.size == 0) return;
    ptx_.image.globals.push_back({.name = std::string(variable.name),
                                  .size = variable.size,
                                  .kind = variable.is_managed ? GlobalImage::Kind::managed
                                          : space == ".const" ? GlobalImage::Kind::constant
                                                              : GlobalImage::Kind::device,
                                  .initial = std::move(variable.initial)});
  }

  PtxWords words_;
  Ptx ptx_;
  std::vector<Variable> module_shared_;
  bool is_after_mark_ = true;
};

}  // namespace

bool is_ptx(std::string_view text) { return PtxWords(text).word() == ".version"; }

Ptx read_ptx(std::string_view text) { return Reader(text).read(); }

}  // namespace memlake::emulator
