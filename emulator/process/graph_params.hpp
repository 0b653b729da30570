#pragma once

// The parameters of nodes as the program gives them, checked, and as the program gets them.

#include "graphs/graph_node.hpp"
#include "process/driver.hpp"
#include "process/transfer.hpp"

namespace memlake::emulator {

// All of these throw Refusal and change nothing, except that an allocation takes addresses and that a child graph or a
// body is made. `context` NULL stands for the current context.
NodeParams copy_params(Driver& driver, const CUDA_MEMCPY3D& params, CUcontext context);
NodeParams fill_params(Driver& driver, const CUDA_MEMSET_NODE_PARAMS_v2& params);
NodeParams host_params(const CUDA_HOST_NODE_PARAMS& params);
NodeParams event_params(Driver& driver, CUevent event, bool is_record);
/// A copy of the child graph, or the child itself.
NodeParams child_params(Driver& driver, const Graph& parent, CUgraph child, CUgraphChildGraphNodeOwnership ownership,
                        const Origin& origin);
/// Sets `params.dptr`.
NodeParams alloc_params(Driver& driver, CUDA_MEM_ALLOC_NODE_PARAMS& params);
NodeParams free_params(Driver& driver, const Graph& graph, CUdeviceptr address);

/// The parameters of the function for all kinds. Sets the fields that the driver answers in. Refuses kinds that the
/// emulator does not have with 801.
NodeParams any_params(Driver& driver, Graph& graph, CUgraphNodeParams& params, const Origin& origin);

/// New parameters, as of any_params(), for a node that exists in a graph or in an executable graph made from it, and
/// has the parameters `now`. Kinds that cannot change are refused. A kernel node keeps its attributes.
NodeParams changed_params(Driver& driver, Graph& graph, const NodeParams& now, CUgraphNodeParams& params,
                          const Origin& origin);

/// The parameters of a node for the program. Pointers in them belong to the node. Throws 801 for declared work.
CUgraphNodeParams told_params(Driver& driver, const NodeParams& params);
CUDA_MEM_ALLOC_NODE_PARAMS told_params(const AllocNode& node);

/// The memory of a copy node.
struct NodeBoxes {
  Box destination;
  Box source;
  Extent extent;
};
[[nodiscard]] NodeBoxes boxes_of(const CopyNode& node, const Context* context);

void check_alloc_allowed(const Graph& graph);

/// Refuses a node of 0 bytes. A captured allocation of 0 bytes is allowed, as observed.
void check_alloc_size(const CUDA_MEM_ALLOC_NODE_PARAMS& params);

}  // namespace memlake::emulator
