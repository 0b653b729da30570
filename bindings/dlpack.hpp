#pragma once

// The structures of DLPack, by which libraries hand arrays to each other without a copy. `VersionedTensor` is that of
// DLPack 1.0 and newer, `ManagedTensor` that of the versions before. A capsule with the name kFresh or kFreshVersioned
// owns its tensor; a consumer renames it, and then calls the deleter itself.

#include <cstddef>
#include <cstdint>

namespace memlake::bindings::dlpack {

enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum TypeCode : std::uint8_t { unsigned_integer = 1 };

inline constexpr std::uint64_t kReadOnly = 1;  // a bit of VersionedTensor::flags
inline constexpr const char* kFresh = "dltensor";
inline constexpr const char* kUsed = "used_dltensor";
inline constexpr const char* kFreshVersioned = "dltensor_versioned";
inline constexpr const char* kUsedVersioned = "used_dltensor_versioned";

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: compact, row by row
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct VersionedTensor {
  Version version;
  void* manager;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, shape) == 24);
static_assert(sizeof(ManagedTensor) == 64 && sizeof(VersionedTensor) == 80);

}  // namespace memlake::bindings::dlpack
