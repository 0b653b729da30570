// Batches of copies: each batch is one piece of work of its stream.

#include <functional>
#include <vector>

#include "entries/batches.hpp"
#include "entries/copying.hpp"

namespace memlake::emulator {

namespace {

/// One copy of a batch.
struct BatchCopy {
  Box destination;
  Box source;
  Extent extent;
  CUmemcpySrcAccessOrder order;
};

void check_attributes(CUmemcpySrcAccessOrder order, unsigned flags) {
  if (order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
    invalid("the source access order ", +order, " is not STREAM (1), DURING_API_CALL (2) or ANY (3)");
  if ((flags & ~CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) != 0) invalid("flags ", flags, " of a copy are unknown");
}

/// Checks one copy and makes its work.
Work prepare(Session& session, Stream& stream, BatchCopy& one) {
  Driver& driver = session.driver;
  if (one.extent.is_empty()) invalid("a copy of a batch has 0 bytes");
  for (Box* box : {&one.destination, &one.source}) {
    box->place.context = driver.contexts.find(stream.context);
    check_extent(*box, one.extent);
    check_place(driver, box->place, one.extent.span(*box), box == &one.destination,
                box == &one.destination ? "destination" : "source");
  }
  Work work = copy_work(driver, session.origin, one.destination, one.source, one.extent);
  driver.pools.allocations().check_made(driver.streams.before(stream), work.touches);
  return work;
}

/// The works of all copies as one.
Work joined(const Session& session, std::vector<Work> works) {
  Work all{.name = text(session.origin.call, " of ", works.size(), " copies"), .origin = session.origin};
  std::vector<std::function<std::string()>> checks;
  std::vector<std::function<void()>> bodies;
  for (Work& work : works) {
    all.touches.insert(all.touches.end(), work.touches.begin(), work.touches.end());
    checks.push_back(std::move(work.check));
    bodies.push_back(std::move(work.body));
  }
  all.check = [checks = std::move(checks)] {
    std::string refusal;
    for (const auto& check : checks)
      if (refusal.empty()) refusal = check();
    return refusal;
  };
  all.body = [bodies = std::move(bodies)] {
    for (const auto& body : bodies) body();
  };
  return all;
}

/// `failing` is the index of the copy that is being checked.
void copy_batch(Session& session, Stream& stream, std::vector<BatchCopy> copies, size_t& failing) {
  Driver& driver = session.driver;
  std::vector<Work> works;
  for (failing = 0; failing < copies.size(); ++failing) works.push_back(prepare(session, stream, copies[failing]));
  failing = SIZE_MAX;
  bool waits = false;
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto& [destination, source, extent, order] = copies[i];
    // In stream order the program keeps the source until the stream has reached the copy. ANY allows both.
    if (order != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && is_pageable(driver, source.place, extent.span(source)))
      stage_source(driver, works[i], destination, source, extent);
    // A copy to pageable memory returns when the bytes are there, as with copies outside batches.
    waits = waits || is_pageable(driver, destination.place, extent.span(destination));
  }
  Work work = joined(session, std::move(works));
  if (waits) {
    run_and_wait(session, stream, std::move(work));
  } else {
    driver.enqueue(stream, std::move(work));
  }
}

void copy_lines(Session& session, const CUdeviceptr* destinations, const CUdeviceptr* sources, const size_t* sizes,
                size_t count, const CUmemcpyAttributes* attributes, const size_t* starts, size_t number,
                CUstream handle, size_t& failing) {
  Stream& stream = stream_of_batch(session, handle);
  if (count == 0) invalid("count is 0");
  required(destinations, "dsts");
  required(sources, "srcs");
  required(sizes, "sizes");
  required(attributes, "attrs");
  const std::vector<size_t> entries = entries_of_batch(count, starts, number, "attrsIdxs");
  for (size_t i = 0; i < number; ++i) check_attributes(attributes[i].srcAccessOrder, attributes[i].flags);
  std::vector<BatchCopy> copies;
  for (size_t i = 0; i < count; ++i)
    copies.push_back(
        {{any_place(destinations[i])}, {any_place(sources[i])}, {sizes[i]}, attributes[entries[i]].srcAccessOrder});
  copy_batch(session, stream, std::move(copies), failing);
}

/// The bytes of an element: of the array of the copy; 1 between pointers.
std::uint64_t element_of(Session& session, const CUDA_MEMCPY3D_BATCH_OP& one) {
  std::uint64_t element = 1;
  for (const CUmemcpy3DOperand* operand : {&one.dst, &one.src}) {
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) continue;
    const std::uint64_t found = session.driver.arrays.find(operand->op.array.array).element;
    if (operand == &one.src && one.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY && found != element)
      invalid("the elements of the two arrays have ", element, " and ", found, " bytes");
    element = found;
  }
  return element;
}

/// `extent` is in elements.
Box box_of(Session& session, const CUmemcpy3DOperand& operand, const CUextent3D& extent, std::uint64_t element) {
  const Extent bytes{extent.width * element, extent.height, extent.depth};
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const CUoffset3D& offset = operand.op.array.offset;
    if (offset.x > SIZE_MAX / element) invalid("the offset ", offset.x, " is not in the array");
    return array_box(session, operand.op.array.array, offset.x * element, offset.y, offset.z, bytes);
  }
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) invalid("the operand type ", +operand.type, " is unknown");
  const auto& [address, row, layer, hint] = operand.op.ptr;
  if (row != 0 && row < extent.width) invalid("the row length ", row, " is below the width ", extent.width);
  if (layer != 0 && layer < extent.height) invalid("the layer height ", layer, " is below the height ", extent.height);
  std::uint64_t pitch = 0;
  std::uint64_t slice = 0;
  if (__builtin_mul_overflow(row != 0 ? row : extent.width, element, &pitch) ||
      __builtin_mul_overflow(pitch, layer != 0 ? layer : extent.height, &slice))
    invalid("an operand is too large");
  return {any_place(address), pitch, slice};
}

void copy_boxes(Session& session, size_t count, const CUDA_MEMCPY3D_BATCH_OP* given, unsigned long long flags,
                CUstream handle, size_t& failing) {
  Stream& stream = stream_of_batch(session, handle);
  if (flags != 0) invalid("flags must be 0");
  if (count == 0) invalid("numOps is 0");
  required(given, "opList");
  std::vector<BatchCopy> copies;
  for (failing = 0; failing < count; ++failing) {
    const CUDA_MEMCPY3D_BATCH_OP& one = given[failing];
    check_attributes(one.srcAccessOrder, one.flags);
    const std::uint64_t element = element_of(session, one);
    if (one.extent.width > SIZE_MAX / element) invalid("the width ", one.extent.width, " is too large");
    copies.push_back({box_of(session, one.dst, one.extent, element),
                      box_of(session, one.src, one.extent, element),
                      {one.extent.width * element, one.extent.height, one.extent.depth},
                      one.srcAccessOrder});
  }
  failing = SIZE_MAX;
  copy_batch(session, stream, std::move(copies), failing);
}

/// Runs a function that tells the index of the copy that it refuses; SIZE_MAX if the refusal is about no single copy.
template <class Body>
void telling(size_t* fail_index, Body&& body) {
  size_t failing = SIZE_MAX;
  try {
    body(failing);
  } catch (...) {
    if (fail_index != nullptr) *fail_index = failing;
    throw;
  }
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* sizes, size_t count,
                                           CUmemcpyAttributes* attributes, size_t* starts, size_t number,
                                           size_t* fail_index, CUstream stream) {
  return enter(Call::cuMemcpyBatchAsync, MEMLAKE_CALLER, [&](Session& session) {
    telling(fail_index, [&](size_t& failing) {
      copy_lines(session, destinations, sources, sizes, count, attributes, starts, number, stream, failing);
    });
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* sizes,
                                              size_t count, CUmemcpyAttributes* attributes, size_t* starts,
                                              size_t number, CUstream stream) {
  return enter(Call::cuMemcpyBatchAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    telling(nullptr, [&](size_t& failing) {
      copy_lines(session, destinations, sources, sizes, count, attributes, starts, number, stream, failing);
    });
  });
}

MEMLAKE_EXPORT CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, size_t* fail_index,
                                             unsigned long long flags, CUstream stream) {
  return enter(Call::cuMemcpy3DBatchAsync, MEMLAKE_CALLER, [&](Session& session) {
    telling(fail_index, [&](size_t& failing) { copy_boxes(session, count, copies, flags, stream, failing); });
  });
}

MEMLAKE_EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, unsigned long long flags,
                                                CUstream stream) {
  return enter(Call::cuMemcpy3DBatchAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    telling(nullptr, [&](size_t& failing) { copy_boxes(session, count, copies, flags, stream, failing); });
  });
}

}  // namespace memlake::emulator
