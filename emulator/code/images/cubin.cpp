#include "code/images/cubin.hpp"

#include <algorithm>
#include <unordered_map>

namespace memlake::emulator {

namespace {

// The ELF fields that are used, from the System V ABI.
constexpr std::uint64_t kAbiVersion = 8;
constexpr std::uint64_t kType = 16;
constexpr std::uint64_t kMachine = 18;
constexpr std::uint64_t kProgramTable = 32;
constexpr std::uint64_t kSectionTable = 40;
constexpr std::uint64_t kFlags = 48;
constexpr std::uint64_t kProgramCount = 56;
constexpr std::uint64_t kSectionCount = 60;
constexpr std::uint64_t kSectionNames = 62;
constexpr std::uint64_t kProgramBytes = 56;
constexpr std::uint64_t kSectionBytes = 64;
constexpr std::uint64_t kSymbolBytes = 24;
constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint16_t kTypeRelocatable = 1;
constexpr std::uint32_t kSectionHasNoBytes = 8;  // SHT_NOBITS
constexpr unsigned kSymbolObject = 1;            // STT_OBJECT
constexpr unsigned kSymbolFunction = 2;          // STT_FUNC

// NVIDIA's additions, as the output of the compilers of CUDA 11 to 13 shows them.
constexpr std::uint8_t kOldAbiVersions = 7;  // up to it, the architecture is in the first byte of the flags
constexpr unsigned kOtherIsKernel = 0x10;
constexpr unsigned kOtherIsManaged = 0x04;
constexpr unsigned kValueFollows = 4;  // the format of an attribute whose value has its own length
enum InfoAttribute : unsigned {
  kMaxThreads = 0x05,     // three numbers
  kReqThreads = 0x10,     // three numbers
  kFrameSize = 0x11,      // symbol, bytes
  kParameter = 0x17,      // index, ordinal (2 bytes), offset (2 bytes), flags with the size from bit 18 on
  kRegisters = 0x2f,      // symbol, count
  kCluster = 0x3d,        // three numbers
  kLargeParameter = 0x45  // index, ordinal (2 bytes), offset (2 bytes), size (2 bytes), flags
};

struct Section {
  std::string_view name;
  std::uint32_t type;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint32_t link;
};

struct Symbol {
  std::string_view name;
  unsigned type;
  unsigned other;
  std::uint16_t section;
  std::uint64_t value;
  std::uint64_t size;
};

Section read_section(Bytes file, std::uint64_t at) {
  return {.name = {},
          .type = file.number<std::uint32_t>(at + 4, "a section"),
          .offset = file.number<std::uint64_t>(at + 24, "a section"),
          .size = file.number<std::uint64_t>(at + 32, "a section"),
          .link = file.number<std::uint32_t>(at + 40, "a section")};
}

Bytes bytes_of(Bytes file, const Section& section) {
  if (section.type == kSectionHasNoBytes) return Bytes({});
  return file.part(section.offset, section.size, "a section");
}

std::vector<Section> read_sections(Bytes file) {
  const auto table = file.number<std::uint64_t>(kSectionTable, "the header");
  const auto count = file.number<std::uint16_t>(kSectionCount, "the header");
  const auto names = file.number<std::uint16_t>(kSectionNames, "the header");
  std::vector<Section> sections;
  (void)file.part(table, count * kSectionBytes, "the section table");
  for (std::uint64_t i = 0; i < count; ++i) sections.push_back(read_section(file, table + i * kSectionBytes));
  if (names >= sections.size()) refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: its sections have no names");
  const Bytes texts = bytes_of(file, sections[names]);
  for (std::uint64_t i = 0; i < count; ++i)
    sections[i].name = texts.name(file.number<std::uint32_t>(table + i * kSectionBytes, "a section"), "a section name");
  return sections;
}

std::vector<Symbol> read_symbols(Bytes file, const std::vector<Section>& sections) {
  const auto table = std::ranges::find(sections, ".symtab", &Section::name);
  if (table == sections.end()) refuse(CUDA_ERROR_INVALID_IMAGE, "the image has no table of symbols");
  if (table->link >= sections.size())
    refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: its symbols have no names");
  const Bytes names = bytes_of(file, sections[table->link]);
  const Bytes entries = bytes_of(file, *table);
  std::vector<Symbol> symbols;
  for (std::uint64_t at = 0; at + kSymbolBytes <= entries.size(); at += kSymbolBytes)
    symbols.push_back({.name = names.name(entries.number<std::uint32_t>(at, "a symbol"), "a symbol's name"),
                       .type = entries.number<std::uint8_t>(at + 4, "a symbol") & 0xFU,
                       .other = entries.number<std::uint8_t>(at + 5, "a symbol"),
                       .section = entries.number<std::uint16_t>(at + 6, "a symbol"),
                       .value = entries.number<std::uint64_t>(at + 8, "a symbol"),
                       .size = entries.number<std::uint64_t>(at + 16, "a symbol")});
  return symbols;
}

/// Calls `use(attribute, value)` for each attribute of a .nv.info section whose value has its own length.
template <class Use>
void for_each_attribute(Bytes info, Use&& use) {
  for (std::uint64_t at = 0; at < info.size();) {
    const auto format = info.number<std::uint8_t>(at, "a kernel's table");
    const auto attribute = info.number<std::uint8_t>(at + 1, "a kernel's table");
    const auto value = info.number<std::uint16_t>(at + 2, "a kernel's table");
    at += 4;
    if (format != kValueFollows) continue;
    use(attribute, info.part(at, value, "a kernel's table"));
    at += value;
  }
}

std::uint64_t threads_of(Bytes value) {
  std::uint64_t product = 1;
  for (std::uint64_t at = 0; at < 12; at += 4) {
    const auto size = std::min(value.number<std::uint32_t>(at, "launch bounds"), std::uint32_t{1} << 20);
    product *= std::max(size, std::uint32_t{1});
  }
  return product;
}

/// What the kernel's own table says.
void read_kernel_table(Bytes info, KernelImage& kernel) {
  std::vector<std::pair<std::uint16_t, Parameter>> parameters;
  for_each_attribute(info, [&](unsigned attribute, Bytes value) {
    switch (attribute) {
      case kMaxThreads:
      case kReqThreads:
        kernel.max_threads = threads_of(value);
        break;
      case kCluster:
        for (std::uint64_t i = 0; i < 3; ++i) kernel.cluster[i] = value.number<std::uint32_t>(4 * i, "a cluster");
        break;
      case kParameter:
      case kLargeParameter: {
        const auto ordinal = value.number<std::uint16_t>(4, "a parameter");
        const auto offset = value.number<std::uint16_t>(6, "a parameter");
        const auto word = value.number<std::uint32_t>(8, "a parameter");
        parameters.push_back({ordinal, {offset, attribute == kParameter ? word >> 18 : word & 0xFFFF}});
        break;
      }
      default:
        break;
    }
  });
  std::ranges::sort(parameters, {}, [](const auto& entry) { return entry.first; });
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [ordinal, parameter] = parameters[i];
    if (ordinal != i || parameter.offset + parameter.size > kMostParameterBytes)
      refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: parameter ", i, " of kernel ", kernel.name,
             " is missing or too large");
    kernel.parameters.push_back(parameter);
  }
}

/// What the table of the whole file says about single kernels, by the symbols of the kernels.
void read_file_table(Bytes info, const std::unordered_map<std::uint32_t, KernelImage*>& kernels) {
  for_each_attribute(info, [&](unsigned attribute, Bytes value) {
    if (attribute != kRegisters && attribute != kFrameSize) return;
    const auto kernel = kernels.find(value.number<std::uint32_t>(0, "a kernel's resources"));
    if (kernel == kernels.end()) return;  // of a device function
    const auto amount = value.number<std::uint32_t>(4, "a kernel's resources");
    if (attribute == kFrameSize) {
      kernel->second->local = amount;
    } else {
      kernel->second->registers = static_cast<int>(std::min(amount, std::uint32_t{255}));
    }
  });
}

void read_kernels(Bytes file, const std::vector<Section>& sections, const std::vector<Symbol>& symbols, Image& image) {
  std::unordered_map<std::string_view, const Section*> by_name;
  for (const Section& section : sections) by_name.emplace(section.name, &section);
  const auto find = [&](std::string_view prefix, std::string_view name) -> const Section* {
    const auto found = by_name.find(std::string(prefix).append(name));
    return found == by_name.end() ? nullptr : found->second;
  };
  const Section* constants = find(".nv.constant3", "");
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < symbols.size(); ++i) {
    const Symbol& symbol = symbols[i];
    if (symbol.type != kSymbolFunction || (symbol.other & kOtherIsKernel) == 0) continue;
    KernelImage& kernel = image.kernels.emplace_back(KernelImage{.name = std::string(symbol.name)});
    numbers.push_back(i);
    if (const Section* info = find(".nv.info.", symbol.name)) read_kernel_table(bytes_of(file, *info), kernel);
    if (const Section* shared = find(".nv.shared.", symbol.name)) kernel.shared = shared->size;
    if (constants != nullptr) kernel.constant = constants->size;
  }
  std::unordered_map<std::uint32_t, KernelImage*> by_symbol;
  for (std::size_t i = 0; i < numbers.size(); ++i) by_symbol.emplace(numbers[i], &image.kernels[i]);
  if (const Section* info = find(".nv.info", "")) read_file_table(bytes_of(file, *info), by_symbol);
}

void read_globals(Bytes file, const std::vector<Section>& sections, const std::vector<Symbol>& symbols, Image& image) {
  for (const Symbol& symbol : symbols) {
    if (symbol.type != kSymbolObject || symbol.size == 0 || symbol.section >= sections.size()) continue;
    const Section& section = sections[symbol.section];
    const bool is_constant = section.name == ".nv.constant3";
    if (!is_constant && section.name != ".nv.global" && section.name != ".nv.global.init") continue;
    if (symbol.value > section.size || symbol.size > section.size - symbol.value)
      refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: the variable ", symbol.name,
             " is not inside its section");
    GlobalImage& global = image.globals.emplace_back(GlobalImage{.name = std::string(symbol.name),
                                                                 .size = symbol.size,
                                                                 .kind = is_constant ? GlobalImage::Kind::constant
                                                                         : (symbol.other & kOtherIsManaged) != 0
                                                                             ? GlobalImage::Kind::managed
                                                                             : GlobalImage::Kind::device});
    const Bytes bytes = bytes_of(file, section);
    if (bytes.size() == 0) continue;
    const Bytes initial = bytes.part(symbol.value, symbol.size, "a variable");
    global.initial.assign(initial.data(), initial.data() + initial.size());
  }
}

}  // namespace

bool is_elf(Bytes bytes) { return bytes.size() >= 4 && std::memcmp(bytes.data(), "\177ELF", 4) == 0; }

std::uint64_t end_of_elf_tables(Bytes header) {
  const auto end_of = [&](std::uint64_t table, std::uint64_t count, std::uint64_t bytes) -> std::uint64_t {
    const auto offset = header.number<std::uint64_t>(table, "the header");
    const std::uint64_t size = header.number<std::uint16_t>(count, "the header") * bytes;
    if (offset > UINT64_MAX - size) refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: a table has no place");
    return size == 0 ? 0 : offset + size;
  };
  return std::max({kElfHeaderBytes, end_of(kProgramTable, kProgramCount, kProgramBytes),
                   end_of(kSectionTable, kSectionCount, kSectionBytes)});
}

std::uint64_t end_of_elf(Bytes tables) {
  std::uint64_t end = end_of_elf_tables(tables);
  const auto table = tables.number<std::uint64_t>(kSectionTable, "the header");
  const auto count = tables.number<std::uint16_t>(kSectionCount, "the header");
  for (std::uint64_t i = 0; i < count; ++i) {
    const Section section = read_section(tables, table + i * kSectionBytes);
    if (section.type == kSectionHasNoBytes) continue;
    if (section.offset > UINT64_MAX - section.size)
      refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: section ", i, " has no place");
    end = std::max(end, section.offset + section.size);
  }
  return end;
}

bool is_relocatable(Bytes file) {
  return file.number<std::uint16_t>(kType, "the header") == kTypeRelocatable &&
         file.number<std::uint16_t>(kMachine, "the header") == kMachineCuda;
}

Image read_cubin(Bytes file) {
  if (!is_elf(file) || file.size() < kElfHeaderBytes || file.data()[4] != 2 || file.data()[5] != 1)
    refuse(CUDA_ERROR_INVALID_IMAGE, "the image is no 64-bit little-endian ELF file");
  if (const auto machine = file.number<std::uint16_t>(kMachine, "the header"); machine != kMachineCuda)
    refuse(CUDA_ERROR_INVALID_IMAGE, "the image is an ELF file for machine ", machine, ", not for a CUDA device (",
           kMachineCuda, ")");
  const auto flags = file.number<std::uint32_t>(kFlags, "the header");
  const auto abi = file.number<std::uint8_t>(kAbiVersion, "the header");
  Image image;
  image.binary_version = static_cast<int>(abi <= kOldAbiVersions ? flags & 0xFF : flags >> 8 & 0xFF);
  image.ptx_version = image.binary_version;
  const std::vector<Section> sections = read_sections(file);
  const std::vector<Symbol> symbols = read_symbols(file, sections);
  read_kernels(file, sections, symbols, image);
  read_globals(file, sections, symbols, image);
  return image;
}

}  // namespace memlake::emulator
