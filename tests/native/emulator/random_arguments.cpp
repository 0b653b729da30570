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
constexpr std::size_t kDataBytes = 8 * kMiB;
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
  for (std::size_t i = 0; i < kZones; ++i)
    mprotect(zones_ + i * (kZoneBytes + page()) + kZoneBytes, page(), PROT_NONE);
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
    const bool is_pinned = (result.type == "CUdeviceptr" && (value < kDeviceWindow || value >= kDeviceWindow + 32 * kHuge)) ||
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
    if (is_of({"cuMemMap", "cuMemUnmap", "Access", "AddressFree", "RetainAllocation"})) special = pick("cuMemAddressReserve");
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
  if (is_any(name, {"count", "number", "jit_count"}) && !is_any(parameter.function, {"cuMemAdvise", "cuMemAdvise_v2"}) &&
      !parameter.function.starts_with("cuMemset") && !parameter.function.starts_with("cuMemPrefetchAsync"))
    return one_of({0, 1, 1, 2, 3, kMostElements});
  if (is_any(name, {"length", "log_size"}) && parameter.function != "cuStreamAttachMemAsync")
    return one_of({0, 1, 5, kMostElements, type == "int" ? ~std::uint64_t{0} : 3});
  if (name == "version") return one_of({0, 2000, 4000, 11030, 12000, 13000, 99999});
  if (is_any(name, {"offset", "alignment", "hint", "shared", "from", "to"}) && !happens_once_in(6)) return 0;
  if (name == "flags") return happens_once_in(8) ? random_() : one_of({0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 7});
  // These functions read or write as much as this says.
  if (name == "size" && is_any(parameter.function, {"cuMemRangeGetAttribute", "cuLinkAddData_v2"}))
    return one_of({0, 1, 4, 8, 12, 64});
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
  if (element.type == "size_t" && is_any(element.name, {"count"})) return choose(kMostElements + 1);
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
  static const char* const texts[] = {"kernel", "other", "variable", "cuInit", "cuMemAlloc", "0000:01:00.0", "1:0.0",
                                      "",       "%s%n",  "x:y:z"};
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

// -- structures -------------------------------------------------------------------------------------------------------

void RandomArguments::fill(CUmemLocation& value) {
  value.type = happens_once_in(3) ? up_to<CUmemLocationType>(5) : CU_MEM_LOCATION_TYPE_DEVICE;
  value.id = device();
}

void RandomArguments::fill(CUmemAccessDesc& value) {
  fill(value.location);
  value.flags = happens_once_in(3) ? up_to<CUmemAccess_flags>(4) : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

void RandomArguments::fill(CUmemAllocationProp& value) {
  value.type = happens_once_in(8) ? up_to<CUmemAllocationType>(3) : CU_MEM_ALLOCATION_TYPE_PINNED;
  value.requestedHandleTypes = happens_once_in(3) ? up_to<CUmemAllocationHandleType>(8) : CU_MEM_HANDLE_TYPE_NONE;
  fill(value.location);
  if (happens_once_in(10)) value.allocFlags.usage = static_cast<unsigned short>(random_());
  if (happens_once_in(10)) value.allocFlags.compressionType = static_cast<unsigned char>(choose(3));
}

void RandomArguments::fill(CUmemPoolProps& value) {
  value.allocType = happens_once_in(6) ? up_to<CUmemAllocationType>(3) : CU_MEM_ALLOCATION_TYPE_PINNED;
  value.handleTypes = happens_once_in(3) ? up_to<CUmemAllocationHandleType>(8) : CU_MEM_HANDLE_TYPE_NONE;
  fill(value.location);
  if (happens_once_in(4)) value.maxSize = size();
  if (happens_once_in(20)) value.usage = static_cast<unsigned short>(choose(4));
}

void RandomArguments::fill(CUmemPoolPtrExportData& value) {
  for (unsigned char& byte : value.reserved) byte = static_cast<unsigned char>(choose(256));
}
void RandomArguments::fill(CUipcMemHandle& value) {
  for (char& byte : value.reserved) byte = static_cast<char>(choose(256));
}
void RandomArguments::fill(CUipcEventHandle& value) {
  for (char& byte : value.reserved) byte = static_cast<char>(choose(256));
}
void RandomArguments::fill(CUuuid& value) {
  for (char& byte : value.bytes) byte = static_cast<char>(choose(256));
}

void RandomArguments::fill(LaunchAttributeValue& value) {
  for (char& byte : value) byte = static_cast<char>(choose(3));
}

void RandomArguments::fill(CUlaunchConfig& value) {
  value = {static_cast<unsigned>(choose(3)), 1,
           static_cast<unsigned>(choose(3)), static_cast<unsigned>(one_of({1, 32, 1024, 1025, 0})),
           1,                                1,
           static_cast<unsigned>(size()),    handle_of<CUstream>("CUstream"),
           nullptr,                          0};
  if (happens_once_in(2)) return;
  value.numAttrs = static_cast<unsigned>(choose(4));
  value.attrs = reinterpret_cast<CUlaunchAttribute*>(data_ + kDataBytes / 2);
  for (unsigned i = 0; i < value.numAttrs; ++i) {
    value.attrs[i] = {};
    value.attrs[i].id = static_cast<int>(choose(16));
    const std::uint64_t first = happens_once_in(2) ? handle("CUevent") : choose(4);
    std::memcpy(value.attrs[i].value, &first, sizeof first);
  }
}

template <class Copy>
void RandomArguments::fill_copy(Copy& copy) {
  const auto type = [&] { return happens_once_in(12) ? up_to<CUmemorytype>(5) : static_cast<CUmemorytype>(1 + choose(4)); };
  copy.srcMemoryType = type();
  copy.dstMemoryType = type();
  copy.srcHost = data_ + choose(16);
  copy.dstHost = data_ + choose(16);
  copy.srcDevice = address();
  copy.dstDevice = address();
  copy.srcArray = handle_of<CUarray>("CUarray");
  copy.dstArray = handle_of<CUarray>("CUarray");
  // With the program's memory on either side, the box must lie in it.
  const bool is_bounded = copy.srcMemoryType == CU_MEMORYTYPE_HOST || copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  const auto extent = [&](std::size_t most) -> std::size_t {
    return is_bounded || !happens_once_in(6) ? choose(most) : size();
  };
  copy.srcXInBytes = extent(8);
  copy.dstXInBytes = extent(8);
  copy.srcY = extent(2);
  copy.dstY = extent(2);
  copy.srcPitch = extent(4096);
  copy.dstPitch = extent(4096);
  copy.WidthInBytes = extent(2048);
  copy.Height = extent(16);
  if constexpr (requires { copy.Depth; }) {
    copy.srcZ = extent(2);
    copy.dstZ = extent(2);
    copy.srcLOD = happens_once_in(10) ? 1 : 0;
    copy.srcHeight = extent(16);
    copy.dstHeight = extent(16);
    copy.Depth = extent(8);
  }
  if constexpr (requires { copy.srcContext; }) {
    copy.srcContext = handle_of<CUcontext>("CUcontext");
    copy.dstContext = handle_of<CUcontext>("CUcontext");
  }
}

void RandomArguments::fill(CUDA_MEMCPY2D& value) { fill_copy(value); }
void RandomArguments::fill(CUDA_MEMCPY3D& value) { fill_copy(value); }
void RandomArguments::fill(CUDA_MEMCPY3D_PEER& value) { fill_copy(value); }

void RandomArguments::fill(CUmemcpyAttributes& value) {
  value.srcAccessOrder = up_to<CUmemcpySrcAccessOrder>(4);
  fill(value.srcLocHint);
  fill(value.dstLocHint);
  value.flags = static_cast<unsigned>(choose(3));
}

void RandomArguments::fill(CUmemcpy3DOperand& value) {
  value.type = up_to<CUmemcpy3DOperandType>(3);
  if (value.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    value.op.array = {handle_of<CUarray>("CUarray"), {choose(3), choose(3), choose(3)}};
  } else {
    value.op.ptr.ptr = address();
    value.op.ptr.rowLength = happens_once_in(4) ? size() : choose(512);
    value.op.ptr.layerHeight = happens_once_in(4) ? size() : choose(16);
    fill(value.op.ptr.locHint);
  }
}

void RandomArguments::fill(CUDA_MEMCPY3D_BATCH_OP& value) {
  fill(value.src);
  fill(value.dst);
  value.extent = {happens_once_in(8) ? size() : choose(512), choose(16), choose(8)};
  value.srcAccessOrder = up_to<CUmemcpySrcAccessOrder>(4);
  value.flags = static_cast<unsigned>(choose(3));
}

void RandomArguments::fill(CUDA_ARRAY_DESCRIPTOR& value) {
  value = {happens_once_in(8) ? size() : choose(512), choose(32), static_cast<CUarray_format>(one_of({1, 2, 3, 16, 32, 5})),
           static_cast<unsigned>(one_of({1, 2, 4, 3}))};
}

void RandomArguments::fill(CUDA_ARRAY3D_DESCRIPTOR& value) {
  CUDA_ARRAY_DESCRIPTOR flat;
  fill(flat);
  value = {flat.Width,       flat.Height,
           choose(12),       flat.Format,
           flat.NumChannels, static_cast<unsigned>(happens_once_in(2) ? choose(64) : 0)};
}

void RandomArguments::fill(CUDA_RESOURCE_DESC& value) {
  value.resType = up_to<CUresourcetype>(4);
  const auto format = static_cast<CUarray_format>(one_of({1, 2, 3, 16, 32, 5}));
  switch (value.resType) {
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      value.res.mipmap.hMipmappedArray = handle_of<CUmipmappedArray>("CUmipmappedArray");
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      value.res.linear = {address(), format, static_cast<unsigned>(choose(5)), size()};
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      value.res.pitch2D = {address(), format, static_cast<unsigned>(choose(5)), size(), choose(64), size()};
      break;
    default:
      value.res.array.hArray = handle_of<CUarray>("CUarray");
  }
  value.flags = static_cast<unsigned>(happens_once_in(10));
}

void RandomArguments::fill(CUDA_TEXTURE_DESC& value) {
  for (int& mode : value.addressMode) mode = static_cast<int>(choose(5));
  value.filterMode = static_cast<int>(choose(3));
  value.flags = static_cast<unsigned>(choose(8));
}

void RandomArguments::fill(CUDA_RESOURCE_VIEW_DESC& value) {
  value.format = static_cast<int>(choose(40));
  value.width = size();
  value.height = choose(64);
  value.lastMipmapLevel = static_cast<unsigned>(choose(4));
}

void RandomArguments::fill(CUgraphEdgeData& value) {
  if (!happens_once_in(4)) return;
  value.from_port = static_cast<unsigned char>(choose(4));
  value.type = static_cast<unsigned char>(choose(3));
  value.reserved[0] = static_cast<unsigned char>(happens_once_in(4));
}

void RandomArguments::fill(CUDA_MEMSET_NODE_PARAMS& value) {
  value = {address(), happens_once_in(4) ? size() : 0,
           static_cast<unsigned>(choose(256)), static_cast<unsigned>(one_of({1, 2, 4, 3})),
           happens_once_in(6) ? size() : choose(512), one_of({0, 1, 1, 1, 4, ~std::uint64_t{0}})};
}

void RandomArguments::fill(CUDA_HOST_NODE_PARAMS& value) {
  value = {happens_once_in(10) ? nullptr : known_function(CUhostFn{}), nullptr};
}

void RandomArguments::fill(CUDA_MEM_ALLOC_NODE_PARAMS& value) {
  fill(value.poolProps);
  value.bytesize = size();
  if (happens_once_in(2)) return;
  auto* const descriptors = reinterpret_cast<CUmemAccessDesc*>(data_ + kDataBytes / 2 + 4096);
  value.accessDescCount = choose(3);
  for (std::size_t i = 0; i < value.accessDescCount; ++i) fill(descriptors[i]);
  value.accessDescs = happens_once_in(10) ? nullptr : descriptors;
}

template <class Node>
void RandomArguments::fill_kernel(Node& node) {
  node.func = handle_of<CUfunction>("CUfunction");
  node.gridDimX = static_cast<unsigned>(choose(3));
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.blockDimX = static_cast<unsigned>(one_of({1, 32, 1024, 1025, 0}));
  node.sharedMemBytes = happens_once_in(4) ? static_cast<unsigned>(size()) : 0;
  auto** const parameters = reinterpret_cast<void**>(data_ + kDataBytes / 2 + 8192);
  for (std::size_t i = 0; i < kMostElements; ++i) parameters[i] = data_ + 256 * i;
  node.kernelParams = happens_once_in(4) ? nullptr : parameters;
  if constexpr (requires { node.kern; }) {
    if (happens_once_in(2)) node.kern = handle_of<CUkernel>("CUkernel");
    if (happens_once_in(4)) node.ctx = handle_of<CUcontext>("CUcontext");
  }
}
void RandomArguments::fill(CUDA_KERNEL_NODE_PARAMS& value) { fill_kernel(value); }
void RandomArguments::fill(CUDA_KERNEL_NODE_PARAMS_v1& value) { fill_kernel(value); }

void RandomArguments::fill(CUgraphNodeParams& value) {
  value.type = up_to<CUgraphNodeType>(14);
  switch (value.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      fill(value.kernel);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      fill(value.memcpy.copyParams);
      value.memcpy.copyCtx = handle_of<CUcontext>("CUcontext");
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS memset{};
      fill(memset);
      value.memset = {memset.dst,   memset.pitch,  memset.value, memset.elementSize,
                      memset.width, memset.height, handle_of<CUcontext>("CUcontext")};
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      fill(value.host);
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      value.graph = {handle_of<CUgraph>("CUgraph"), up_to<CUgraphChildGraphNodeOwnership>(2)};
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      value.event = handle_of<CUevent>("CUevent");
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      fill(value.alloc);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      value.free = address();
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      value.conditional = {made("CUgraphConditionalHandle", choose(4)), up_to<CUgraphConditionalNodeType>(3),
                           static_cast<unsigned>(choose(4)), nullptr, handle_of<CUcontext>("CUcontext")};
      break;
    default:
      break;
  }
}

void RandomArguments::fill(CUDA_GRAPH_INSTANTIATE_PARAMS& value) {
  value.flags = choose(16);
  value.hUploadStream = handle_of<CUstream>("CUstream");
}
void RandomArguments::fill(CUgraphExecUpdateResultInfo&) {}

}  // namespace memlake::test
