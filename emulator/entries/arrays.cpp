// Arrays, mipmapped arrays, texture and surface objects.

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

/// Freeing an array waits for the work that uses it, as cuMemFree does.
void wait_for_users(Session& session, std::uint64_t address, std::uint64_t context) {
  Driver& driver = session.driver;
  const Allocation* found = driver.plain.find(address);
  if (found == nullptr) return;
  const std::uint64_t size = found->size;
  driver.streams.synchronize_device(session.lock, *found->device);
  while (const Work* user = driver.in_flight.user_of(address, size))
    driver.streams.wait(session.lock, CompletionRef(user->completion));
  driver.contexts.check_alive(context);
}

void check_linear(Session& session, CUdeviceptr address, CUarray_format format, unsigned channels) {
  element_size(format, channels);
  if (!session.driver.memory.is_device_reachable(address)) invalid(Hex{address}, " is not device memory");
}

void check_resource(Session& session, const CUDA_RESOURCE_DESC& resource) {
  if (resource.flags != 0) invalid("the flags of the resource must be 0");
  Driver& driver = session.driver;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      driver.arrays.find(resource.res.array.hArray);
      return;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      driver.arrays.find(resource.res.mipmap.hMipmappedArray);
      return;
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = resource.res.linear;
      if (linear.sizeInBytes == 0) invalid("the linear resource has 0 bytes");
      return check_linear(session, linear.devPtr, linear.format, linear.numChannels);
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& pitched = resource.res.pitch2D;
      if (pitched.width == 0 || pitched.height == 0) invalid("the pitched resource has no row or no column");
      const std::uint64_t element = element_size(pitched.format, pitched.numChannels);
      if (pitched.width > pitched.pitchInBytes / element)
        invalid("rows of ", pitched.width, " elements do not fit into the pitch ", pitched.pitchInBytes);
      return check_linear(session, pitched.devPtr, pitched.format, pitched.numChannels);
    }
  }
  invalid("the resource type ", +resource.resType, " is unknown");
}

}  // namespace

MEMLAKE_EXPORT CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* given) {
  return enter(Call::cuArrayCreate_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(array, "pHandle");
    const CUDA_ARRAY_DESCRIPTOR& flat = required(given, "pAllocateArray");
    const CUDA_ARRAY3D_DESCRIPTOR descriptor{flat.Width, flat.Height, 0, flat.Format, flat.NumChannels, 0};
    Context& context = session.driver.contexts.current();
    *array = as_handle(session.driver.arrays.create(context, descriptor, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  return enter(Call::cuArray3DCreate_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(array, "pHandle");
    required(descriptor, "pAllocateArray");
    Context& context = session.driver.contexts.current();
    *array = as_handle(session.driver.arrays.create(context, *descriptor, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* descriptor, CUarray array) {
  return enter(Call::cuArrayGetDescriptor_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(descriptor, "pArrayDescriptor");
    const CUDA_ARRAY3D_DESCRIPTOR& found = session.driver.arrays.find(array).descriptor;
    *descriptor = {found.Width, found.Height, found.Format, found.NumChannels};
  });
}

MEMLAKE_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray array) {
  return enter(Call::cuArray3DGetDescriptor_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(descriptor, "pArrayDescriptor");
    *descriptor = session.driver.arrays.find(array).descriptor;
  });
}

MEMLAKE_EXPORT CUresult cuArrayDestroy(CUarray array) {
  return enter(Call::cuArrayDestroy, MEMLAKE_CALLER, [&](Session& session) {
    const Array& found = session.driver.arrays.find(array);
    if (found.mipmap == 0) wait_for_users(session, found.address, found.context);
    session.driver.arrays.destroy(session.driver.arrays.find(array));
  });
}

MEMLAKE_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* mipmap, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                               unsigned levels) {
  return enter(Call::cuMipmappedArrayCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(mipmap, "pHandle");
    required(descriptor, "pMipmappedArrayDesc");
    Context& context = session.driver.contexts.current();
    *mipmap = as_handle(session.driver.arrays.create_mipmap(context, *descriptor, levels, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray* array, CUmipmappedArray mipmap, unsigned level) {
  return enter(Call::cuMipmappedArrayGetLevel, MEMLAKE_CALLER, [&](Session& session) {
    required(array, "pLevelArray");
    const Mipmap& found = session.driver.arrays.find(mipmap);
    if (level >= found.levels.size()) invalid("level ", level, " of ", found.levels.size(), " does not exist");
    *array = reinterpret_cast<CUarray>(found.levels[level]);
  });
}

MEMLAKE_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
  return enter(Call::cuMipmappedArrayDestroy, MEMLAKE_CALLER, [&](Session& session) {
    const Mipmap& found = session.driver.arrays.find(mipmap);
    wait_for_users(session, found.address, found.context);
    session.driver.arrays.destroy(session.driver.arrays.find(mipmap));
  });
}

MEMLAKE_EXPORT CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                                          const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  return enter(Call::cuTexObjectCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(object, "pTexObject");
    required(texture, "pTexDesc");
    const Context& context = session.driver.contexts.current();
    check_resource(session, required(resource, "pResDesc"));
    Texture made{context.handle, *resource, *texture, std::nullopt};
    if (view != nullptr) made.view = *view;
    *object = session.driver.arrays.add_texture(std::move(made));
  });
}

MEMLAKE_EXPORT CUresult cuTexObjectDestroy(CUtexObject object) {
  return enter(Call::cuTexObjectDestroy, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.arrays.destroy_texture(object); });
}

MEMLAKE_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject object) {
  return enter(Call::cuTexObjectGetResourceDesc, MEMLAKE_CALLER, [&](Session& session) {
    required(resource, "pResDesc");
    *resource = session.driver.arrays.find_texture(object).resource;
  });
}

MEMLAKE_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* texture, CUtexObject object) {
  return enter(Call::cuTexObjectGetTextureDesc, MEMLAKE_CALLER, [&](Session& session) {
    required(texture, "pTexDesc");
    *texture = *session.driver.arrays.find_texture(object).texture;
  });
}

MEMLAKE_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* view, CUtexObject object) {
  return enter(Call::cuTexObjectGetResourceViewDesc, MEMLAKE_CALLER, [&](Session& session) {
    required(view, "pResViewDesc");
    const Texture& found = session.driver.arrays.find_texture(object);
    if (!found.view) invalid("the texture object was made without a resource view");
    *view = *found.view;
  });
}

MEMLAKE_EXPORT CUresult cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource) {
  return enter(Call::cuSurfObjectCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(object, "pSurfObject");
    const Context& context = session.driver.contexts.current();
    check_resource(session, required(resource, "pResDesc"));
    if (resource->resType != CU_RESOURCE_TYPE_ARRAY) invalid("the resource of a surface is an array");
    const Array& array = session.driver.arrays.find(resource->res.array.hArray);
    if ((array.descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0)
      invalid("the array of a surface is made with CUDA_ARRAY3D_SURFACE_LDST");
    *object = session.driver.arrays.add_surface({context.handle, *resource, std::nullopt, std::nullopt});
  });
}

MEMLAKE_EXPORT CUresult cuSurfObjectDestroy(CUsurfObject object) {
  return enter(Call::cuSurfObjectDestroy, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.arrays.destroy_surface(object); });
}

MEMLAKE_EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject object) {
  return enter(Call::cuSurfObjectGetResourceDesc, MEMLAKE_CALLER, [&](Session& session) {
    required(resource, "pResDesc");
    *resource = session.driver.arrays.find_surface(object).resource;
  });
}

}  // namespace memlake::emulator
