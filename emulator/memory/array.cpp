#include "memory/array.hpp"

#include <algorithm>
#include <bit>

#include "basics/handles.hpp"
#include "basics/refusal.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kArrayBase = 0x0A7'0000'0000'0000;  // a distinct range; values are never reused
constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                                 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |
                                 CUDA_ARRAY3D_COLOR_ATTACHMENT;
constexpr unsigned kLastFlag = 0x100;
constexpr std::uint64_t kFaces = 6;

template <class Map>
auto& at(Map& map, std::uint64_t handle, const char* name) {
  const auto found = map.find(handle);
  if (found == map.end()) refuse(CUDA_ERROR_INVALID_HANDLE, "there is no ", name, " ", Hex{handle}, " (any more)");
  return found->second;
}

/// The device attributes with the largest extents of a kind of array; 0: the kind has no such extent.
struct Limits {
  int width;
  int height;
  int depth;
};

/// The limits for textures, or for arrays that surfaces use.
Limits limits_of(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, bool is_mipmapped) {
  const bool is_surface = (descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0;
  const bool is_layered = (descriptor.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if ((descriptor.Flags & CUDA_ARRAY3D_CUBEMAP) != 0) {
    if (is_layered) return is_surface ? Limits{67, 67, 68} : Limits{53, 53, 54};
    return is_surface ? Limits{66, 66, 0} : Limits{52, 52, 0};
  }
  if (is_layered && descriptor.Height == 0) return is_surface ? Limits{61, 0, 62} : Limits{42, 0, 43};
  if (is_layered) return is_surface ? Limits{63, 64, 65} : Limits{27, 28, 29};
  if (descriptor.Depth != 0) return is_surface ? Limits{58, 59, 60} : Limits{24, 25, 26};
  if ((descriptor.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0) return {45, 46, 0};
  if (descriptor.Height != 0)
    return is_surface ? Limits{56, 57, 0} : is_mipmapped ? Limits{73, 74, 0} : Limits{22, 23, 0};
  return is_surface ? Limits{55, 0, 0} : is_mipmapped ? Limits{77, 0, 0} : Limits{21, 0, 0};
}

void check_extent(const Device& device, std::uint64_t extent, int attribute, const char* name) {
  if (attribute == 0) return;
  const auto most = static_cast<std::uint64_t>(device.attribute(attribute).value_or(0));
  if (extent > most)
    invalid("the ", name, " ", extent, " of the array is above ", most, " (attribute ", attribute, ")");
}

void check(const Device& device, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, bool is_mipmapped) {
  if (descriptor.Width == 0) invalid("an array has a width of at least 1");
  if ((descriptor.Flags & ~kKnownFlags) != 0) {
    if (descriptor.Flags >= kLastFlag << 1) invalid("array flags ", descriptor.Flags, " are unknown");
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has no sparse, deferred or video arrays (flags ", descriptor.Flags,
           ")");
  }
  const bool is_layered = (descriptor.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  const bool is_cube = (descriptor.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  if (is_cube && (descriptor.Width != descriptor.Height ||
                  (is_layered ? descriptor.Depth == 0 || descriptor.Depth % kFaces != 0 : descriptor.Depth != kFaces)))
    invalid("a cubemap is square and has 6 faces, or a multiple of 6 if it is layered");
  if (is_layered && descriptor.Depth == 0) invalid("a layered array has at least one layer (its depth)");
  if (!is_layered && descriptor.Height == 0 && descriptor.Depth != 0)
    invalid("an array with a depth has a height, unless it is layered");
  const Limits limits = limits_of(descriptor, is_mipmapped);
  check_extent(device, descriptor.Width, limits.width, "width");
  check_extent(device, descriptor.Height, limits.height, "height");
  check_extent(device, descriptor.Depth, limits.depth, "depth");
}

std::uint64_t halved(std::uint64_t extent, unsigned level) {
  return extent == 0 ? 0 : std::max<std::uint64_t>(1, level < 64 ? extent >> level : 0);
}

}  // namespace

std::uint64_t element_size(CUarray_format format, unsigned channels) {
  if (channels != 1 && channels != 2 && channels != 4) invalid(channels, " channels are not 1, 2 or 4");
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return std::uint64_t{2} * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return std::uint64_t{4} * channels;
  }
  // CUDA's other formats (normalised, compressed, planar) have numbers from 0x50 on.
  if (format < 0x50) invalid("the array format ", +format, " is unknown");
  refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has arrays of integers and floating-point numbers only, not format ",
         +format);
}

Array& Arrays::create(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, const Origin& origin) {
  Array made{.handle = kArrayBase + kHandleStep * next_,
             .descriptor = descriptor,
             .address = 0,
             .element = element_size(descriptor.Format, descriptor.NumChannels),
             .context = context.handle};
  check(*context.device, descriptor, false);
  made.address = plain_.allocate(context, made.bytes(), origin);
  ++next_;
  return arrays_.emplace(made.handle, made).first->second;
}

void Arrays::destroy(Array& array) {
  if (array.mipmap != 0) refuse(CUDA_ERROR_INVALID_HANDLE, "the array is a level of a mipmapped array; destroy that");
  plain_.free(array.address);
  arrays_.erase(array.handle);
}

Mipmap& Arrays::create_mipmap(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, unsigned levels,
                              const Origin& origin) {
  const std::uint64_t element = element_size(descriptor.Format, descriptor.NumChannels);
  check(*context.device, descriptor, true);
  const bool is_layered = (descriptor.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const std::uint64_t largest =
      std::max({descriptor.Width, descriptor.Height, is_layered ? std::size_t{0} : descriptor.Depth});
  const auto most = static_cast<unsigned>(std::bit_width(largest));
  if (levels == 0) invalid("a mipmapped array has at least one level");
  levels = std::min(levels, most);  // as CUDA clamps them

  std::vector<Array> made;
  std::uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    CUDA_ARRAY3D_DESCRIPTOR smaller = descriptor;
    smaller.Width = halved(descriptor.Width, level);
    smaller.Height = halved(descriptor.Height, level);
    if (!is_layered) smaller.Depth = halved(descriptor.Depth, level);
    Array array{.handle = 0, .descriptor = smaller, .address = bytes, .element = element, .context = context.handle};
    bytes += array.bytes();
    made.push_back(array);
  }
  Mipmap mipmap{.handle = 0,
                .address = plain_.allocate(context, bytes, origin),
                .context = context.handle,
                .descriptor = descriptor,
                .levels = {}};
  mipmap.handle = kArrayBase + kHandleStep * next_++;
  for (Array& array : made) {
    array.handle = kArrayBase + kHandleStep * next_++;
    array.address += mipmap.address;
    array.mipmap = mipmap.handle;
    mipmap.levels.push_back(array.handle);
    arrays_.emplace(array.handle, array);
  }
  const std::uint64_t handle = mipmap.handle;
  return mipmaps_.emplace(handle, std::move(mipmap)).first->second;
}

void Arrays::destroy(Mipmap& mipmap) {
  plain_.free(mipmap.address);
  for (const std::uint64_t level : mipmap.levels) arrays_.erase(level);
  mipmaps_.erase(mipmap.handle);
}

Array& Arrays::find(CUarray handle) { return at(arrays_, reinterpret_cast<std::uint64_t>(handle), "array"); }

Mipmap& Arrays::find(CUmipmappedArray handle) {
  return at(mipmaps_, reinterpret_cast<std::uint64_t>(handle), "mipmapped array");
}

Texture& Arrays::find_texture(CUtexObject handle) { return at(textures_, handle, "texture object"); }
Texture& Arrays::find_surface(CUsurfObject handle) { return at(surfaces_, handle, "surface object"); }

std::uint64_t Arrays::add(Textures& textures, Texture texture) {
  const std::uint64_t handle = kArrayBase + kHandleStep * next_++;
  textures.emplace(handle, std::move(texture));
  return handle;
}

void Arrays::destroy_texture(CUtexObject handle) {
  find_texture(handle);
  textures_.erase(handle);
}

void Arrays::destroy_surface(CUsurfObject handle) {
  find_surface(handle);
  surfaces_.erase(handle);
}

void Arrays::drop_context(const Context& context) {
  const auto is_its = [&](const auto& entry) { return entry.second.context == context.handle; };
  std::erase_if(arrays_, is_its);
  std::erase_if(mipmaps_, is_its);
  std::erase_if(textures_, is_its);
  std::erase_if(surfaces_, is_its);
}

}  // namespace memlake::emulator
