#pragma once

// The nodes of graphs: what each kind does, and the edges between them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "basics/origin.hpp"
#include "basics/refusal.hpp"
#include "code/launch.hpp"
#include "cuda/graph_abi.hpp"
#include "pools/graph_memory.hpp"
#include "work/launch_attributes.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

struct Graph;

struct EmptyNode {};

struct CopyNode {
  CUDA_MEMCPY3D params;
  std::uint64_t context;
};

struct FillNode {
  CUDA_MEMSET_NODE_PARAMS_v2 params;  ///< `ctx` is never NULL
};

struct HostNode {
  CUDA_HOST_NODE_PARAMS params;
};

struct EventRecordNode {
  std::uint64_t event;
};

struct EventWaitNode {
  std::uint64_t event;
};

struct ChildNode {
  Graph* graph;  ///< owned by the node
  CUgraphChildGraphNodeOwnership ownership;
};

struct AllocNode {
  CUmemPoolProps props;
  std::vector<CUmemAccessDesc> access;
  GraphRangeRef range;
};

struct FreeNode {
  GraphRangeRef range;
};

struct ConditionalNode {
  CUgraphConditionalHandle handle;
  CUgraphConditionalNodeType type;
  std::uint64_t context;
  std::vector<Graph*> bodies;    ///< owned by the node
  std::vector<CUgraph> handles;  ///< of the bodies, for the program
};

/// The parameters of a kernel, copied, in the two forms in which the program can pass them and gets them back.
class KernelArguments {
 public:
  KernelArguments(const KernelImage& kernel, std::vector<char> bytes, bool is_extra);
  KernelArguments(const KernelArguments&) = delete;
  KernelArguments& operator=(const KernelArguments&) = delete;

  /// The lists for the program; null if the program used the other form.
  [[nodiscard]] void** pointers() { return is_extra_ ? nullptr : pointers_.data(); }
  [[nodiscard]] void** extra() { return is_extra_ ? pointers_.data() : nullptr; }

 private:
  std::vector<char> bytes_;
  std::size_t size_;
  bool is_extra_;
  std::vector<void*> pointers_;  // into the two above
};

/// A launch of a kernel. Like a launch in a stream it is skipped.
struct KernelNode {
  std::uint64_t handle;  ///< a CUfunction or a CUkernel, as the program gave it
  std::uint64_t context;
  std::string name;
  LaunchShape shape;
  std::shared_ptr<KernelArguments> arguments;           ///< copies of the node share them; they do not change
  std::map<int, LaunchAttributeValue> attributes = {};  ///< by CUkernelNodeAttrID
};

/// Work that declares the memory it touches (memlakeEmulatorLaunch), captured from a stream.
struct DeclaredNode {
  std::string name;
  std::vector<Touch> touches;
};

using NodeParams = std::variant<EmptyNode, CopyNode, FillNode, HostNode, EventRecordNode, EventWaitNode, ChildNode,
                                AllocNode, FreeNode, ConditionalNode, KernelNode, DeclaredNode>;

[[nodiscard]] CUgraphNodeType type_of(const NodeParams& params);

/// The name of a kind of node in sentences and in DOT files.
[[nodiscard]] const char* name_of(CUgraphNodeType type);

[[nodiscard]] inline bool is_memory_node(const NodeParams& params) {
  return std::holds_alternative<AllocNode>(params) || std::holds_alternative<FreeNode>(params);
}

struct Node;

struct Edge {
  Node* node;  ///< at the other end
  CUgraphEdgeData data = {};
};

struct Node {
  std::uint64_t handle;
  Graph* graph;
  NodeParams params;
  Origin made_by;
  std::uint64_t cloned_from = 0;  ///< the node of the original graph; 0: none
  std::vector<Edge> before = {};  ///< its dependencies
  std::vector<Edge> after = {};   ///< the nodes that depend on it
};

/// The nodes of a list in an order that respects the edges; of unordered nodes the older comes first. Shorter than the
/// list if the edges have a cycle.
[[nodiscard]] std::vector<const Node*> in_order(const std::vector<std::unique_ptr<Node>>& nodes);

/// Whether an edge's data is not that of an ordinary dependency.
[[nodiscard]] bool is_special(const CUgraphEdgeData& data);

inline CUgraphNode as_handle(const Node& node) { return reinterpret_cast<CUgraphNode>(node.handle); }

}  // namespace memlake::emulator
