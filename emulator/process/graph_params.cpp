#include "process/graph_params.hpp"

#include <algorithm>

#include "process/graph_kernel.hpp"
#include "process/transfer.hpp"

namespace memlake::emulator {

namespace {

std::uint64_t context_of(Driver& driver, CUcontext context) {
  if (context == nullptr) return driver.contexts.current().handle;
  const Context* found = driver.contexts.find(context);
  if (found == nullptr) refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no context ", static_cast<const void*>(context));
  return found->handle;
}

/// The memory at an address must exist, or be the range of an allocation node that a launch will fill.
void check_memory(Driver& driver, const Place& place, std::uint64_t span, bool is_write, const char* name) {
  if (const GraphRangeRef range = driver.graphs.find_range(place.address)) {
    if (place.side == Side::host) invalid("the ", name, " is memory of a graph, where host memory is expected");
    if (span > range->size() - std::min(range->size(), place.address - range->address()))
      invalid("the ", name, " runs over the end of the allocation node's memory at ", Hex{range->address()});
    return;
  }
  check_place(driver, place, span, is_write, name);
}

/// Writes the parameters of a node into the struct for all kinds.
struct Told {
  Driver& driver;
  CUgraphNodeParams& out;

  void operator()(const EmptyNode&) const {}
  void operator()(const CopyNode& node) const {
    out.memcpy = {
        .flags = 0, .reserved = 0, .copyCtx = reinterpret_cast<CUcontext>(node.context), .copyParams = node.params};
  }
  void operator()(const FillNode& node) const { out.memset = node.params; }
  void operator()(const HostNode& node) const { out.host = node.params; }
  void operator()(const EventRecordNode& node) const { out.event = reinterpret_cast<CUevent>(node.event); }
  void operator()(const EventWaitNode& node) const { out.event = reinterpret_cast<CUevent>(node.event); }
  void operator()(const ChildNode& node) const { out.graph = {as_handle(*node.graph), node.ownership}; }
  void operator()(const AllocNode& node) const { out.alloc = told_params(node); }
  void operator()(const FreeNode& node) const { out.free = node.range->address(); }
  void operator()(const ConditionalNode& node) const {
    // The struct has no const: the program must not write through the list.
    out.conditional = {.handle = node.handle,
                       .type = node.type,
                       .size = static_cast<unsigned>(node.handles.size()),
                       .phGraph_out = const_cast<CUgraph*>(node.handles.data()),
                       .ctx = reinterpret_cast<CUcontext>(node.context)};
  }
  void operator()(const KernelNode& node) const { out.kernel = told_params(driver, node); }
  void operator()(const DeclaredNode& node) const { as_kernel(node); }  // refuses it
};

void check_row(std::size_t width, std::size_t height, std::size_t depth, std::size_t pitch, std::size_t rows,
               const char* name) {
  if ((height > 1 || depth > 1) && pitch < width) invalid("the pitch of the ", name, " is less than the width");
  if (depth > 1 && rows < height) invalid("the height of the ", name, " is less than the height of the copy");
}

}  // namespace

NodeParams copy_params(Driver& driver, const CUDA_MEMCPY3D& params, CUcontext context) {
  const std::uint64_t handle = context_of(driver, context);
  const Context* found = driver.contexts.find(handle);
  if (params.reserved0 != nullptr || params.reserved1 != nullptr)
    invalid("a reserved field is not 0 (zero the whole struct)");
  if (params.WidthInBytes == 0 || params.Height == 0 || params.Depth == 0)
    invalid("a copy of ", params.WidthInBytes, " x ", params.Height, " x ", params.Depth, " bytes");
  for (const CUmemorytype type : {params.srcMemoryType, params.dstMemoryType}) {
    if (type == CU_MEMORYTYPE_ARRAY) refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has no copy nodes of arrays");
    if (type < CU_MEMORYTYPE_HOST || type > CU_MEMORYTYPE_UNIFIED) invalid("memory type ", +type, " is unknown");
  }
  if (params.srcLOD != 0 || params.dstLOD != 0) invalid("srcLOD and dstLOD must be 0");
  for (const std::uint64_t x : {params.srcXInBytes, params.dstXInBytes})
    if (x > SIZE_MAX - params.WidthInBytes) invalid("rows of ", params.WidthInBytes, " bytes from byte ", x, " on");
  check_row(params.srcXInBytes + params.WidthInBytes, params.Height, params.Depth, params.srcPitch, params.srcHeight,
            "source");
  check_row(params.dstXInBytes + params.WidthInBytes, params.Height, params.Depth, params.dstPitch, params.dstHeight,
            "destination");
  const Extent extent{params.WidthInBytes, params.Height, params.Depth};
  const auto check = [&](CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x, std::size_t y,
                         std::size_t z, std::size_t pitch, std::size_t rows, bool is_write) {
    const bool is_host = type == CU_MEMORYTYPE_HOST;
    const std::uint64_t base = is_host ? reinterpret_cast<std::uint64_t>(host) : device;
    const char* name = is_write ? "destination" : "source";
    if (base == 0) invalid("the ", name, " is NULL");
    std::uint64_t slice = 0;
    if (__builtin_mul_overflow(pitch, rows != 0 ? rows : params.Height, &slice))
      invalid("the planes of the ", name, " are too large");
    const Side side = is_host ? Side::host : type == CU_MEMORYTYPE_DEVICE ? Side::device : Side::any;
    Box box{{base, side, found}, pitch, slice};
    move_to_corner(driver, box, {x, y, z}, name);
    check_extent(box, extent);
    check_memory(driver, box.place, extent.span(box), is_write, name);
  };
  check(params.srcMemoryType, params.srcHost, params.srcDevice, params.srcXInBytes, params.srcY, params.srcZ,
        params.srcPitch, params.srcHeight, false);
  check(params.dstMemoryType, params.dstHost, params.dstDevice, params.dstXInBytes, params.dstY, params.dstZ,
        params.dstPitch, params.dstHeight, true);
  return CopyNode{params, handle};
}

NodeBoxes boxes_of(const CopyNode& node, const Context* context) {
  const CUDA_MEMCPY3D& params = node.params;
  const auto box = [&](CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x, std::size_t y,
                       std::size_t z, std::size_t pitch, std::size_t height) {
    const std::uint64_t base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
    const std::uint64_t slice = pitch * (height != 0 ? height : params.Height);
    return Box{{base + x + y * pitch + z * slice, Side::any, context}, pitch, slice};
  };
  return {.destination = box(params.dstMemoryType, params.dstHost, params.dstDevice, params.dstXInBytes, params.dstY,
                             params.dstZ, params.dstPitch, params.dstHeight),
          .source = box(params.srcMemoryType, params.srcHost, params.srcDevice, params.srcXInBytes, params.srcY,
                        params.srcZ, params.srcPitch, params.srcHeight),
          .extent = {params.WidthInBytes, params.Height, params.Depth}};
}

NodeParams fill_params(Driver& driver, const CUDA_MEMSET_NODE_PARAMS_v2& params) {
  const std::uint64_t handle = context_of(driver, params.ctx);
  if (params.elementSize != 1 && params.elementSize != 2 && params.elementSize != 4)
    invalid("elementSize ", params.elementSize, " is not 1, 2 or 4");
  if (params.width == 0 || params.height == 0) invalid("a fill of ", params.width, " x ", params.height, " elements");
  if (params.width > SIZE_MAX / params.elementSize) invalid("width ", params.width, " is too large");
  if (params.dst % params.elementSize != 0)
    invalid("the destination ", Hex{params.dst}, " is not aligned to ", params.elementSize, " bytes");
  const Extent extent{params.width * params.elementSize, params.height};
  if (params.height > 1 && params.pitch < extent.width) invalid("the pitch is less than the width");
  const Box box{{params.dst, Side::device, driver.contexts.find(handle)}, params.pitch, 0};
  check_extent(box, extent);
  check_memory(driver, box.place, extent.span(box), true, "destination");
  FillNode node{params};
  node.params.ctx = reinterpret_cast<CUcontext>(handle);
  return node;
}

NodeParams host_params(const CUDA_HOST_NODE_PARAMS& params) {
  if (params.fn == nullptr) invalid("the function is NULL");
  return HostNode{params};
}

NodeParams event_params(Driver& driver, CUevent event, bool is_record) {
  const std::uint64_t handle = driver.events.find(event).handle;
  if (is_record) return EventRecordNode{handle};
  return EventWaitNode{handle};
}

NodeParams child_params(Driver& driver, const Graph& parent, CUgraph child, CUgraphChildGraphNodeOwnership ownership,
                        const Origin& origin) {
  Graph& graph = driver.graphs.find(child);
  for (const Graph* at = &parent; at != nullptr; at = at->owner == nullptr ? nullptr : at->owner->graph)
    if (at == &graph) invalid("a graph cannot be a child of itself");
  if (graph.captures > 0) invalid("a stream is capturing into the child graph; end the capture first");
  if (graph.has_conditional_nodes()) invalid("a graph with conditional nodes cannot be a child");
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    if (graph.owner != nullptr) invalid("the child graph belongs to another node already");
    if (graph.execs > 0) invalid("the child graph has executable graphs; it cannot move");
    return ChildNode{&graph, ownership};
  }
  if (ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) invalid("ownership ", +ownership, " is unknown");
  if (graph.has_memory_nodes())
    invalid("a graph with allocation or free nodes can be a child only if its ownership moves to the parent");
  return ChildNode{&driver.graphs.clone(graph, origin), ownership};
}

void check_alloc_size(const CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  if (params.bytesize == 0) invalid("an allocation node of 0 bytes");
}

void check_alloc_allowed(const Graph& graph) {
  if (graph.owner == nullptr) return;
  const bool is_moved = std::holds_alternative<ChildNode>(graph.owner->params);
  invalid(is_moved ? "a child graph can get no more allocation or free nodes"
                   : "the body of a conditional node cannot have allocation or free nodes");
}

NodeParams alloc_params(Driver& driver, CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  const CUmemPoolProps& props = params.poolProps;
  const bool is_managed = props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (!is_managed && props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    invalid("allocType ", +props.allocType, " is not PINNED (1) or MANAGED (2)");
  if (is_managed && props.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has allocation nodes of managed memory on devices only");
  if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    invalid("memory of graphs cannot be exported: handleTypes must be 0");
  if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    invalid("location type ", +props.location.type, " is not DEVICE (1)");
  Device* device = driver.devices.find_open(props.location.id);
  if (device == nullptr) invalid("device ", props.location.id, " does not exist or was closed");
  if (params.accessDescCount > static_cast<std::size_t>(driver.devices.count()))
    invalid("accessDescCount ", params.accessDescCount, " is more than there are devices");
  if (params.accessDescCount > 0) required(params.accessDescs, "accessDescs");
  AllocNode node{.props = props, .access = {}, .range = {}};
  for (std::size_t i = 0; i < params.accessDescCount; ++i) {
    const CUmemAccessDesc& access = params.accessDescs[i];
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) invalid("access descriptor ", i, " is not of a device");
    const Device* to = driver.devices.find_open(access.location.id);
    if (to == nullptr) invalid("device ", access.location.id, " does not exist or was closed");
    if (to != device && !to->can_access(device->ordinal))
      refuse(CUDA_ERROR_INVALID_DEVICE, "device ", to->ordinal, " cannot reach the memory of device ", device->ordinal);
    if (access.flags != CU_MEM_ACCESS_FLAGS_PROT_READ && access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      invalid("access flags ", +access.flags, " are not 1 or 3");
    node.access.push_back(access);
  }
  node.range = driver.pools.reserve_for_graph(*device, params.bytesize);
  if (is_managed)
    for (const auto& other : driver.devices.all())
      if (other->is_open && other.get() != device)
        node.range->rights.set(other->ordinal, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  for (const CUmemAccessDesc& access : node.access)
    if (access.location.id != device->ordinal)
      node.range->rights.set(access.location.id, static_cast<unsigned>(access.flags));
  params.dptr = node.range->address();
  return node;
}

NodeParams free_params(Driver& driver, const Graph& graph, CUdeviceptr address) {
  GraphRangeRef range = driver.graphs.find_range(address);
  if (range == nullptr || range->address() != address)
    invalid("no allocation node has memory that starts at ", Hex{address});
  if (range->freed_by.contains(graph.handle)) invalid("the graph has a free node of ", Hex{address}, " already");
  if (!range->freed_by.empty() && (range->owner == graph.handle || range->freed_by.contains(range->owner)))
    invalid("the memory at ", Hex{address}, " can be freed by its own graph or by others, not by both");
  return FreeNode{std::move(range)};
}

NodeParams any_params(Driver& driver, Graph& graph, CUgraphNodeParams& params, const Origin& origin) {
  if (std::ranges::any_of(params.reserved0, [](int word) { return word != 0; }) || params.reserved2 != 0)
    invalid("a reserved field is not 0 (zero the whole struct)");
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return EmptyNode{};
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0 || params.memcpy.reserved != 0) invalid("flags and reserved must be 0");
      return copy_params(driver, params.memcpy.copyParams, params.memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fill_params(driver, params.memset);
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_params(params.host);
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      NodeParams made = child_params(driver, graph, params.graph.graph, params.graph.ownership, origin);
      params.graph.graph = as_handle(*std::get<ChildNode>(made).graph);
      return made;
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_params(driver, params.event, params.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      check_alloc_allowed(graph);
      check_alloc_size(params.alloc);
      return alloc_params(driver, params.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      check_alloc_allowed(graph);
      return free_params(driver, graph, params.free);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      CUDA_CONDITIONAL_NODE_PARAMS& asked = params.conditional;
      Condition& condition = driver.graphs.find_condition(graph, asked.handle);
      if (condition.has_node) invalid("the conditional handle has a node already");
      const std::uint64_t context = context_of(driver, asked.ctx);
      if (context != condition.context) invalid("the node's context is not that of its conditional handle");
      const bool is_known = asked.type >= CU_GRAPH_COND_TYPE_IF && asked.type <= CU_GRAPH_COND_TYPE_SWITCH;
      const unsigned most = asked.type == CU_GRAPH_COND_TYPE_IF ? 2 : asked.type == CU_GRAPH_COND_TYPE_WHILE ? 1 : 1024;
      if (!is_known || asked.size == 0 || asked.size > most)
        invalid("a conditional node of type ", +asked.type, " cannot have ", asked.size, " bodies");
      ConditionalNode node{.handle = asked.handle, .type = asked.type, .context = context, .bodies = {}, .handles = {}};
      for (unsigned i = 0; i < asked.size; ++i) {
        node.bodies.push_back(&driver.graphs.make_body(origin));
        node.handles.push_back(as_handle(*node.bodies.back()));
      }
      condition.has_node = true;
      return node;
    }
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_params(driver, params.kernel, origin);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has no graph nodes of kind ", name_of(params.type));
  }
  invalid("node type ", +params.type, " is unknown");
}

CUDA_MEM_ALLOC_NODE_PARAMS told_params(const AllocNode& node) {
  return {.poolProps = node.props,
          .accessDescs = node.access.empty() ? nullptr : node.access.data(),
          .accessDescCount = node.access.size(),
          .bytesize = node.range->size(),
          .dptr = node.range->address()};
}

CUgraphNodeParams told_params(Driver& driver, const NodeParams& params) {
  CUgraphNodeParams out{};
  out.type = type_of(params);
  std::visit(Told{driver, out}, params);
  return out;
}

NodeParams changed_params(Driver& driver, Graph& graph, const NodeParams& now, CUgraphNodeParams& params,
                          const Origin& origin) {
  if (params.type != type_of(now))
    invalid("the node is of kind ", name_of(type_of(now)), ", the parameters are of kind ", name_of(params.type));
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    case CU_GRAPH_NODE_TYPE_GRAPH:
      refuse(CUDA_ERROR_NOT_SUPPORTED, "the parameters of a node of kind ", name_of(params.type), " cannot change");
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_params(driver, params.kernel, origin, &as_kernel(now));
    default:
      return any_params(driver, graph, params, origin);
  }
}

}  // namespace memlake::emulator
