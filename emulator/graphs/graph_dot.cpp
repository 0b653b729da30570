// DOT files of graphs (cuGraphDebugDotPrint).

#include <cstdint>
#include <fstream>

#include "basics/refusal.hpp"
#include "graphs/graph.hpp"

namespace memlake::emulator {

namespace {

constexpr unsigned kVerbose = 1U << 0;
constexpr unsigned kKernelParams = 1U << 2;
constexpr unsigned kCopyParams = 1U << 3;
constexpr unsigned kFillParams = 1U << 4;
constexpr unsigned kHostParams = 1U << 5;
constexpr unsigned kEventParams = 1U << 6;
constexpr unsigned kHandles = 1U << 10;
constexpr unsigned kAllocParams = 1U << 11;
constexpr unsigned kFreeParams = 1U << 12;
constexpr unsigned kDotFlags = (1U << 16) - 1;

/// The text about a node's parameters that the flags ask for; "" if they ask for none.
class Details {
 public:
  explicit Details(unsigned flags) : flags_(flags) {}

  template <class Params>
  std::string operator()(const Params&) const {
    return "";
  }
  std::string operator()(const CopyNode& node) const {
    const CUDA_MEMCPY3D& params = node.params;
    if (!wants(kCopyParams)) return "";
    return text("\\n", params.WidthInBytes, " x ", params.Height, " x ", params.Depth, " bytes\\nfrom ",
                Hex{address(params.srcMemoryType, params.srcHost, params.srcDevice)}, "\\nto ",
                Hex{address(params.dstMemoryType, params.dstHost, params.dstDevice)});
  }
  std::string operator()(const FillNode& node) const {
    const CUDA_MEMSET_NODE_PARAMS_v2& params = node.params;
    if (!wants(kFillParams)) return "";
    return text("\\n", params.width, " x ", params.height, " elements of ", params.elementSize, " bytes\\nat ",
                Hex{params.dst}, "\\nvalue ", params.value);
  }
  std::string operator()(const HostNode& node) const {
    if (!wants(kHostParams)) return "";
    return text("\\nfunction ", Hex{reinterpret_cast<std::uint64_t>(node.params.fn)}, "\\ndata ", node.params.userData);
  }
  std::string operator()(const EventRecordNode& node) const { return event(node.event); }
  std::string operator()(const EventWaitNode& node) const { return event(node.event); }
  std::string operator()(const AllocNode& node) const {
    if (!wants(kAllocParams)) return "";
    return text("\\n", node.range->size(), " bytes of device ", node.props.location.id, "\\nat ",
                Hex{node.range->address()});
  }
  std::string operator()(const FreeNode& node) const {
    return wants(kFreeParams) ? text("\\nat ", Hex{node.range->address()}) : "";
  }
  std::string operator()(const KernelNode& node) const {
    if (!wants(kKernelParams)) return "\\n" + node.name;
    const auto& [grid, block, shared, is_cooperative] = node.shape;
    return text("\\n", node.name, "\\ngrid ", grid[0], " x ", grid[1], " x ", grid[2], "\\nblock ", block[0], " x ",
                block[1], " x ", block[2], "\\nshared ", shared, " bytes", is_cooperative ? "\\ncooperative" : "");
  }
  std::string operator()(const DeclaredNode& node) const { return "\\n" + node.name; }

  [[nodiscard]] bool wants(unsigned flag) const { return (flags_ & (flag | kVerbose)) != 0; }

 private:
  static std::uint64_t address(CUmemorytype type, const void* host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
  }
  [[nodiscard]] std::string event(std::uint64_t handle) const {
    return wants(kEventParams) ? text("\\nevent ", Hex{handle}) : "";
  }

  unsigned flags_;
};

std::string escaped(const std::string& label) {
  std::string out;
  for (const char letter : label) {
    if (letter == '"') out += '\\';
    out += letter;
  }
  return out;
}

void write_graph(std::ofstream& file, const Graph& graph, const std::string& prefix, unsigned flags) {
  const Details details(flags);
  std::size_t number = 0;
  std::map<const Node*, std::string> names;
  for (const auto& node : graph.nodes) {
    const std::string name = prefix + "node_" + std::to_string(number++);
    names[node.get()] = name;
    std::string label = text(name_of(type_of(node->params)), "\\nid ", number - 1, std::visit(details, node->params));
    if (details.wants(kHandles)) label += text("\\nnode ", Hex{node->handle});
    file << '"' << name << "\" [shape=\"box\" label=\"" << escaped(label) << "\"];\n";
    std::vector<const Graph*> children;
    if (const auto* child = std::get_if<ChildNode>(&node->params)) children.push_back(child->graph);
    if (const auto* conditional = std::get_if<ConditionalNode>(&node->params))
      children.insert(children.end(), conditional->bodies.begin(), conditional->bodies.end());
    for (std::size_t i = 0; i < children.size(); ++i) {
      const std::string inner = name + "_graph_" + std::to_string(i) + "_";
      file << "subgraph \"cluster_" << inner << "\" {\nlabel=\"" << inner << "\";\n";
      write_graph(file, *children[i], inner, flags);
      file << "}\n";
    }
  }
  for (const auto& node : graph.nodes)
    for (const Edge& edge : node->after)
      file << '"' << names.at(node.get()) << "\" -> \"" << names.at(edge.node) << "\";\n";
}

}  // namespace

void write_dot(const Graph& graph, const std::string& path, unsigned flags) {
  if ((flags & ~kDotFlags) != 0) invalid("flags ", flags, " are unknown");
  std::ofstream file(path);
  file << "digraph \"graph\" {\n";
  write_graph(file, graph, "", flags);
  file << "}\n";
  file.close();
  if (!file) refuse(CUDA_ERROR_OPERATING_SYSTEM, "the file ", path, " cannot be written");
}

}  // namespace memlake::emulator
