#include "random_arguments.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace memlake::test {

namespace {

constexpr std::size_t kZones = 16;
constexpr std::size_t kZoneBytes = 16384;
constexpr std::uint64_t kLargestCopy = 4 * kMiB;  // of a copy that the program's memory must have room for
constexpr std::size_t kUnknownBytes = 128;        // a pointer to void: no function reads or writes more there
constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;
constexpr std::uint64_t kDeviceWindow = 0x2000'0000'0000;  // where the emulator's addresses are
constexpr std::size_t kLive = 12;                          // the newest values of a type are probably alive

// Two kernels and a variable, so that names can be found.
const char kImage[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .b8 variable[64];\n"
    ".visible .entry kernel(.param .u64 a, .param .u32 b)\n{\nret;\n}\n"
    ".visible .entry other()\n{\nret;\n}\n";

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void* map(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("no memory for arguments");
  return at;
}

std::string trimmed(std::string text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

bool is_any(const std::string& name, std::initializer_list<const char*> names) {
  return std::ranges::find(names, name, [](const char* other) { return std::string(other); }) != names.end();
}

}  // namespace

std::vector<Parameter> parse_parameters(const char* function, const std::string& text) {
  std::vector<Parameter> parameters;
  std::size_t begin = text.find('(') + 1;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.rfind(')'));
    const std::string one = trimmed(text.substr(begin, end - begin));
    if (!one.empty()) {
      const std::size_t space = one.rfind(' ');
      parameters.push_back({function, one.substr(0, space), one.substr(space + 1)});
    }
    begin = end + 1;
  }
  return parameters;
}

RandomArguments::RandomArguments(std::uint64_t seed, int first_device, int devices, bool with_pinned)
    : random_(seed),
      first_device_(first_device),
      devices_(devices),
      with_pinned_(with_pinned),
      zones_(static_cast<char*>(map(kZones * (kZoneBytes + page())))),
      data_(static_cast<char*>(map(kDataBytes))) {
  for (std::size_t i = 0; i < kZones; ++i) mprotect(zones_ + i * (kZoneBytes + page()) + kZoneBytes, page(), PROT_NONE);
}

RandomArguments::~RandomArguments() {
  munmap(zones_, kZones * (kZoneBytes + page()));
  // The program's memory stays: queued work may still copy to it.
}

std::uint64_t RandomArguments::made(const std::string& type, std::size_t age) const {
  const auto found = made_.find(type);
  if (found == made_.end() || found->second.size() <= age) return 0;
  return found->second[found->second.size() - 1 - age];
}

void RandomArguments::keep_results(const std::string& function) {
  for (const Result& result : results_) {
    const std::uint64_t value = *result.value;
    const bool is_handle = result.type.starts_with("CU") || result.type == "fd";
    // An address outside of the window is one of pinned memory, which can become any memory of the program.
    const bool is_pinned =
        (result.type == "CUdeviceptr" && (value < kDeviceWindow || value >= kDeviceWindow + 32 * kHuge)) ||
        (result.type == "void*" && is_any(function, {"cuMemAllocHost_v2", "cuMemHostAlloc"}));
    if (is_pinned) {
      made_["pinned"].push_back(value);
    } else if (is_handle && value != 0) {
      made_[result.type].push_back(value);
      if (is_any(function, {"cuMemAllocManaged", "cuMemAddressReserve"})) made_[function].push_back(value);
    }
  }
  // From now on these may be addresses of anything.
  if (is_any(function, {"cuMemFreeHost", "cuMemHostUnregister", "cuCtxDestroy", "cuCtxDestroy_v2", "cuCtxDetach"}) ||
      function.starts_with("cuDevicePrimaryCtxRe"))
    made_["pinned"].clear();
}

std::string RandomArguments::element_type(const std::string& pointer) {
  std::string type = pointer.substr(0, pointer.rfind('*'));
  if (type.starts_with("const ")) type = type.substr(6);
  return type;
}

void* RandomArguments::zone(std::size_t size) {
  const std::size_t aligned = (size + 15) / 16 * 16;
  if (aligned > kZoneBytes || next_zone_ == kZones) throw std::runtime_error("the zones for arguments are too small");
  char* const end = zones_ + next_zone_++ * (kZoneBytes + page()) + kZoneBytes;
  std::memset(end - aligned, 0, aligned);
  return end - size;
}

std::uint64_t RandomArguments::pick(const std::string& type) {
  const std::size_t count = made_[type].size();
  return made(type, choose(happens_once_in(6) ? count : std::min(count, kLive)));
}

std::uint64_t RandomArguments::one_of(std::initializer_list<std::uint64_t> values) {
  return values.begin()[choose(values.size())];
}

int RandomArguments::device() {
  return happens_once_in(10) ? static_cast<int>(one_of({~std::uint64_t{0}, 999, 1}))
                             : first_device_ + static_cast<int>(choose(static_cast<std::size_t>(devices_)));
}

std::uint64_t RandomArguments::size() {
  if (happens_once_in(20)) return one_of({kHuge, ~std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0} - 511});
  if (happens_once_in(2)) return kGranule;
  return one_of({0, 1, 3, 4, 8, 64, 512, 4096, 65536, kGranule + 1, kLargestCopy});
}

std::uint64_t RandomArguments::address(const std::string& function) {
  // Functions that are about one kind of memory get addresses of that kind, most times.
  const auto is_of = [&](std::initializer_list<const char*> words) {
    return std::ranges::any_of(words, [&](const char* word) { return function.find(word) != std::string::npos; });
  };
  if (!happens_once_in(4)) {
    std::uint64_t special = 0;
    if (is_of({"Prefetch", "Advise", "RangeGet", "AttachMem", "Discard"})) special = pick("cuMemAllocManaged");
    if (is_of({"cuMemMap", "cuMemUnmap", "Access", "AddressFree", "RetainAllocation"}))
      special = pick("cuMemAddressReserve");
    if (special != 0) return special;
  }
  if (with_pinned_ && happens_once_in(8))
    if (const std::uint64_t pinned = made("pinned", choose(3)); pinned != 0) return pinned;
  if (happens_once_in(25)) return kDeviceWindow + random_() % kHuge;
  if (happens_once_in(25)) return 0;
  const std::uint64_t start = pick("CUdeviceptr");
  if (start == 0) return kDeviceWindow;
  return start + (happens_once_in(3) ? one_of({0, 1, 256, 4096, kGranule}) : 0);
}

std::uint64_t RandomArguments::handle(const std::string& type) {
  if (type == "CUstream" && happens_once_in(4)) return choose(3);
  if (happens_once_in(25)) return one_of({0, 0, 1, 0xDEAD'BEEF, ~std::uint64_t{0}, made("CUevent"), made("CUgraph")});
  return pick(type);
}

std::uint64_t RandomArguments::number(const Parameter& parameter) {
  const std::string& type = parameter.type;
  const std::string& name = parameter.name;
  if (type == "CUdeviceptr") return address(parameter.function);
  if (is_any(type, {"CUmemGenericAllocationHandle", "CUtexObject", "CUsurfObject"})) return handle(type);
  if (type == "CUdevice" || name == "ordinal") return static_cast<std::uint64_t>(device());
  if (is_any(name, {"count", "number", "jit_count"}) &&
      !is_any(parameter.function, {"cuMemAdvise", "cuMemAdvise_v2"}) && !parameter.function.starts_with("cuMemset") &&
      !parameter.function.starts_with("cuMemPrefetchAsync"))
    return one_of({0, 1, 1, 2, 3, kMostElements});
  if (is_any(name, {"length", "log_size"}) && parameter.function != "cuStreamAttachMemAsync")
    return one_of({0, 1, 5, kMostElements, type == "int" ? ~std::uint64_t{0} : 3});
  // A program that locks itself waits for ever at its next call, so only the questions ask about the own process.
  if (name == "process") {
    const auto own = static_cast<std::uint64_t>(getpid());
    return one_of({0, ~std::uint64_t{0}, 0x7FFF'FFFF, parameter.function.find("Get") != std::string::npos ? own : 0});
  }
  if (name == "version") return one_of({0, 2000, 4000, 11030, 12000, 13000, 99999});
  if (is_any(name, {"offset", "alignment", "hint", "shared", "from", "to"}) && !happens_once_in(6)) return 0;
  if (name == "flags") return happens_once_in(8) ? random_() : one_of({0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 7});
  // These functions read or write as much as this says.
  if (name == "size" && is_any(parameter.function, {"cuMemRangeGetAttribute", "cuLinkAddData_v2"}))
    return one_of({0, 1, 4, 8, 12, 64});
  if (parameter.function == "cuParamSetv" && name == "bytes") return one_of({0, 1, 4, 8, kUnknownBytes});
  if (name == "bytes" && parameter.function.starts_with("cuMemHostRegister"))
    return one_of({0, 1, page(), kGranule, ~std::uint64_t{0}});
  if (type == "size_t") return size();
  if ((name.starts_with("grid_") || name.starts_with("block_")) && !happens_once_in(8)) return 1;
  if (type == "unsigned" || type == "int") return one_of({0, 1, 1, 2, 3, 8, 32, 1024, 65536, ~std::uint64_t{0}});
  if (type.starts_with("CU")) return happens_once_in(12) ? random_() : choose(28);
  return random_();
}

std::uint64_t RandomArguments::element_number(const Parameter& element, std::size_t index) {
  // The places where the attributes of a batch begin.
  if (element.name == "starts" && !happens_once_in(8)) return index;
  // The size of an array that the function fills.
  if ((element.type == "size_t" && element.name == "count") || element.name == "groups")
    return choose(kMostElements + 1);
  return number(element);
}

std::uint64_t RandomArguments::pointer_value(const Parameter& element, std::size_t index) {
  if (element.name != "extra") return reinterpret_cast<std::uint64_t>(data_ + 256 * index);
  // CU_LAUNCH_PARAM_BUFFER_POINTER, the buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, the size, the end.
  auto* const bytes = reinterpret_cast<std::size_t*>(data_ + kDataBytes - 64);
  *bytes = 16;
  const std::uint64_t values[] = {1, reinterpret_cast<std::uint64_t>(data_), 2, reinterpret_cast<std::uint64_t>(bytes)};
  return index < 4 ? values[index] : 0;
}

void* RandomArguments::memory(const Parameter& parameter) {
  const std::string& name = parameter.name;
  if (is_any(name, {"image", "fatbin", "code"})) {
    static char garbage[4096] = "this is no image";
    return happens_once_in(4) ? garbage : const_cast<char*>(kImage);
  }
  if (name == "data" && parameter.function == "cuLinkAddData_v2") return const_cast<char*>(kImage);
  if (is_any(name, {"source", "destination"})) return data_ + choose(64);
  if (name == "address") return reinterpret_cast<void*>(address(parameter.function));
  if (name == "pointer" || parameter.function == "cuUserObjectCreate") {
    const std::uint64_t pinned = made("pinned", choose(4));
    return pinned != 0 && !happens_once_in(3) ? reinterpret_cast<void*>(pinned) : data_ + page() * choose(4);
  }
  const bool is_import = parameter.function.find("ImportFrom") != std::string::npos;
  if (is_import && is_any(name, {"shareable", "handle"}))
    return reinterpret_cast<void*>(happens_once_in(4) ? one_of({~std::uint64_t{0}, 9999}) : made("fd", choose(3)));
  if (parameter.function.find("ExportToShareable") != std::string::npos) {
    auto* const descriptor = static_cast<std::uint64_t*>(zone(sizeof(std::uint64_t)));
    results_.push_back({"fd", descriptor});
    return descriptor;
  }
  void* at = zone(kUnknownBytes);
  for (std::size_t i = 0; i < kUnknownBytes / 4; ++i) static_cast<unsigned*>(at)[i] = static_cast<unsigned>(choose(4));
  return at;
}

const char* RandomArguments::text(const Parameter& parameter) {
  if (parameter.name == "path") return one_of({0, 1}) == 0 ? "/nonexistent/file" : "/dev/null";
  static const char* const texts[] = {"kernel",       "other", "variable", "cuInit", "cuMemAlloc",
                                      "0000:01:00.0", "1:0.0", "",         "%s%n",   "x:y:z"};
  return texts[choose(std::size(texts))];
}

CUhostFn RandomArguments::known_function(CUhostFn) {
  return [](void*) {};
}
CUstreamCallback RandomArguments::known_function(CUstreamCallback) {
  return [](CUstream, CUresult, void*) {};
}
CUoccupancyB2DSize RandomArguments::known_function(CUoccupancyB2DSize) {
  return [](int block) { return static_cast<std::size_t>(block) * 8; };
}

}  // namespace memlake::test
