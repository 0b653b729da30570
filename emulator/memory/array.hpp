#pragma once

// Arrays and mipmapped arrays, and the texture and surface objects on them. An array is device memory without an
// address for the program; its elements lie row by row. No kernel reads textures here, so their objects only have a
// description.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cuda/array_abi.hpp"
#include "memory/plain_memory.hpp"

namespace memlake::emulator {

struct Array {
  std::uint64_t handle;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;  ///< as the program gave it: an extent that the array does not have is 0
  std::uint64_t address;
  std::uint64_t element;  ///< bytes
  std::uint64_t context;
  std::uint64_t mipmap = 0;  ///< the mipmapped array that it is a level of; 0: none

  [[nodiscard]] std::uint64_t pitch() const { return descriptor.Width * element; }
  [[nodiscard]] std::uint64_t height() const { return descriptor.Height == 0 ? 1 : descriptor.Height; }
  [[nodiscard]] std::uint64_t depth() const { return descriptor.Depth == 0 ? 1 : descriptor.Depth; }
  [[nodiscard]] std::uint64_t bytes() const { return pitch() * height() * depth(); }
};

struct Mipmap {
  std::uint64_t handle;
  std::uint64_t address;
  std::uint64_t context;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  std::vector<std::uint64_t> levels;  ///< handles of arrays
};

/// A texture, or a surface, which has only a resource.
struct Texture {
  std::uint64_t context;
  CUDA_RESOURCE_DESC resource;
  std::optional<CUDA_TEXTURE_DESC> texture;
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

class Arrays {
 public:
  explicit Arrays(PlainMemory& plain) : plain_(plain) {}

  Array& create(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, const Origin& origin);
  void destroy(Array& array);
  Mipmap& create_mipmap(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, unsigned levels,
                        const Origin& origin);
  void destroy(Mipmap& mipmap);

  // All of these throw 400 for a handle that does not exist.
  Array& find(CUarray handle);
  Mipmap& find(CUmipmappedArray handle);
  Texture& find_texture(CUtexObject handle);
  Texture& find_surface(CUsurfObject handle);

  std::uint64_t add_texture(Texture texture) { return add(textures_, std::move(texture)); }
  std::uint64_t add_surface(Texture surface) { return add(surfaces_, std::move(surface)); }
  void destroy_texture(CUtexObject handle);
  void destroy_surface(CUsurfObject handle);

  /// Drops all objects of a context. Their memory is dropped with the plain allocations of the context.
  void drop_context(const Context& context);

 private:
  using Textures = std::map<std::uint64_t, Texture>;
  std::uint64_t add(Textures& textures, Texture texture);

  PlainMemory& plain_;
  std::map<std::uint64_t, Array> arrays_;
  std::map<std::uint64_t, Mipmap> mipmaps_;
  Textures textures_;
  Textures surfaces_;
  std::uint64_t next_ = 1;
};

/// The bytes of an element. Throws Refusal for formats and channels that do not exist or are not emulated.
std::uint64_t element_size(CUarray_format format, unsigned channels);

inline CUarray as_handle(const Array& array) { return reinterpret_cast<CUarray>(array.handle); }
inline CUmipmappedArray as_handle(const Mipmap& mipmap) { return reinterpret_cast<CUmipmappedArray>(mipmap.handle); }

}  // namespace memlake::emulator
