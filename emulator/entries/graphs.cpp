// Graphs and their edges, and user objects.

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

/// The form in which all functions give lists: the count alone if there is no array, otherwise as many entries as the
/// array has room for, and NULL in the rest of it.
class List {
 public:
  List(size_t* count, bool has_array) : count_(&required(count, "the count")), room_(has_array ? *count : 0) {}

  /// Calls `put` with a place and the entry for it; null clears the place.
  template <class Entries, class Put>
  void give(const Entries& entries, Put&& put) {
    size_t given = 0;
    for (const auto& entry : entries)
      if (given < room_) put(given++, &entry);
    for (size_t i = given; i < room_; ++i) put(i, nullptr);
    *count_ = room_ == 0 ? entries.size() : given;
  }

 private:
  size_t* count_;
  size_t room_;
};

struct WholeEdge {
  const Node* from;
  const Node* to;
  CUgraphEdgeData data;
};

void give_nodes(const std::vector<const Node*>& found, CUgraphNode* nodes, size_t* count) {
  List(count, nodes != nullptr).give(found, [&](size_t i, const Node* const* node) {
    nodes[i] = node == nullptr ? nullptr : as_handle(**node);
  });
}

void give_edges(const std::vector<Edge>& found, CUgraphNode* nodes, CUgraphEdgeData* data, size_t* count) {
  if (data != nullptr && nodes == nullptr) invalid("edgeData without an array of nodes");
  List(count, nodes != nullptr).give(found, [&](size_t i, const Edge* edge) {
    nodes[i] = edge == nullptr ? nullptr : as_handle(*edge->node);
    if (data != nullptr) data[i] = edge == nullptr ? CUgraphEdgeData{} : edge->data;
  });
}

void get_edges(Session& session, CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
               size_t* count) {
  const Graph& found = session.driver.graphs.find(graph);
  if ((from == nullptr) != (to == nullptr)) invalid("either both arrays are NULL or none");
  if (data != nullptr && from == nullptr) invalid("edgeData without arrays of nodes");
  std::vector<WholeEdge> edges;
  for (const auto& node : found.nodes)
    for (const Edge& edge : node->after) edges.push_back({node.get(), edge.node, edge.data});
  List(count, from != nullptr).give(edges, [&](size_t i, const WholeEdge* edge) {
    from[i] = edge == nullptr ? nullptr : as_handle(*edge->from);
    to[i] = edge == nullptr ? nullptr : as_handle(*edge->to);
    if (data != nullptr) data[i] = edge == nullptr ? CUgraphEdgeData{} : edge->data;
  });
}

}  // namespace

MEMLAKE_EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  return enter(Call::cuGraphCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(graph, "graph");
    if (flags != 0) invalid("flags must be 0");
    *graph = as_handle(session.driver.graphs.create(session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  return enter(Call::cuGraphDestroy, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.graphs.destroy(session.driver.graphs.find(graph)); });
}

MEMLAKE_EXPORT CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  return enter(Call::cuGraphClone, MEMLAKE_CALLER, [&](Session& session) {
    required(clone, "the clone");
    Graphs& graphs = session.driver.graphs;
    *clone = as_handle(graphs.clone(graphs.find(original), session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone) {
  return enter(Call::cuGraphNodeFindInClone, MEMLAKE_CALLER, [&](Session& session) {
    required(node, "node");
    Graphs& graphs = session.driver.graphs;
    *node = as_handle(graphs.find_in_clone(graphs.find_node(original), graphs.find(clone)));
  });
}

MEMLAKE_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return enter(Call::cuGraphNodeGetType, MEMLAKE_CALLER, [&](Session& session) {
    required(type, "type");
    *type = type_of(session.driver.graphs.find_node(node).params);
  });
}

MEMLAKE_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return enter(Call::cuGraphGetNodes, MEMLAKE_CALLER, [&](Session& session) {
    std::vector<const Node*> found;
    for (const auto& node : session.driver.graphs.find(graph).nodes) found.push_back(node.get());
    give_nodes(found, nodes, count);
  });
}

MEMLAKE_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return enter(Call::cuGraphGetRootNodes, MEMLAKE_CALLER, [&](Session& session) {
    std::vector<const Node*> found;
    for (const auto& node : session.driver.graphs.find(graph).nodes)
      if (node->before.empty()) found.push_back(node.get());
    give_nodes(found, nodes, count);
  });
}

MEMLAKE_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return enter(Call::cuGraphGetEdges, MEMLAKE_CALLER,
               [&](Session& session) { get_edges(session, graph, from, to, nullptr, count); });
}

MEMLAKE_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                           size_t* count) {
  return enter(Call::cuGraphGetEdges_v2, MEMLAKE_CALLER,
               [&](Session& session) { get_edges(session, graph, from, to, data, count); });
}

MEMLAKE_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return enter(Call::cuGraphNodeGetDependencies, MEMLAKE_CALLER, [&](Session& session) {
    give_edges(session.driver.graphs.find_node(node).before, nodes, nullptr, count);
  });
}

MEMLAKE_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                                      size_t* count) {
  return enter(Call::cuGraphNodeGetDependencies_v2, MEMLAKE_CALLER,
               [&](Session& session) { give_edges(session.driver.graphs.find_node(node).before, nodes, data, count); });
}

MEMLAKE_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return enter(Call::cuGraphNodeGetDependentNodes, MEMLAKE_CALLER, [&](Session& session) {
    give_edges(session.driver.graphs.find_node(node).after, nodes, nullptr, count);
  });
}

MEMLAKE_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                                        size_t* count) {
  return enter(Call::cuGraphNodeGetDependentNodes_v2, MEMLAKE_CALLER,
               [&](Session& session) { give_edges(session.driver.graphs.find_node(node).after, nodes, data, count); });
}

#define MEMLAKE_EDGES(symbol, method)                                                                           \
  MEMLAKE_EXPORT CUresult symbol(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) { \
    return enter(Call::symbol, MEMLAKE_CALLER, [&](Session& session) {                                          \
      Graphs& graphs = session.driver.graphs;                                                                   \
      graphs.method(graphs.find(graph), from, to, nullptr, count);                                              \
    });                                                                                                         \
  }                                                                                                             \
  MEMLAKE_EXPORT CUresult symbol##_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,            \
                                      const CUgraphEdgeData* data, size_t count) {                              \
    return enter(Call::symbol##_v2, MEMLAKE_CALLER, [&](Session& session) {                                     \
      Graphs& graphs = session.driver.graphs;                                                                   \
      graphs.method(graphs.find(graph), from, to, data, count);                                                 \
    });                                                                                                         \
  }
MEMLAKE_EDGES(cuGraphAddDependencies, add_edges)
MEMLAKE_EDGES(cuGraphRemoveDependencies, remove_edges)
#undef MEMLAKE_EDGES

MEMLAKE_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node) {
  return enter(Call::cuGraphDestroyNode, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.graphs.destroy_node(session.driver.graphs.find_node(node)); });
}

MEMLAKE_EXPORT CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  return enter(Call::cuGraphDebugDotPrint, MEMLAKE_CALLER, [&](Session& session) {
    const Graph& found = session.driver.graphs.find(graph);
    required(path, "path");
    write_dot(found, path, flags);
  });
}

MEMLAKE_EXPORT CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned references,
                                           unsigned flags) {
  return enter(Call::cuUserObjectCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(object, "object_out");
    *object = as_handle(session.driver.user_objects.create(data, destroy, references, flags, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  return enter(Call::cuUserObjectRetain, MEMLAKE_CALLER, [&](Session& session) {
    UserObjects& objects = session.driver.user_objects;
    objects.retain(objects.find(object), count);
  });
}

MEMLAKE_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return enter(Call::cuUserObjectRelease, MEMLAKE_CALLER, [&](Session& session) {
    UserObjects& objects = session.driver.user_objects;
    objects.release(objects.find(object), count);
  });
}

MEMLAKE_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  return enter(Call::cuGraphRetainUserObject, MEMLAKE_CALLER, [&](Session& session) {
    Graph& found = session.driver.graphs.find(graph);
    UserObject& retained = session.driver.user_objects.find(object);
    if (flags > CU_GRAPH_USER_OBJECT_MOVE) invalid("flags ", flags, " are not 0 or 1 (MOVE)");
    found.objects.add(retained, count, flags == CU_GRAPH_USER_OBJECT_MOVE);
  });
}

MEMLAKE_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return enter(Call::cuGraphReleaseUserObject, MEMLAKE_CALLER, [&](Session& session) {
    Graph& found = session.driver.graphs.find(graph);
    found.objects.remove(session.driver.user_objects.find(object), count);
  });
}

}  // namespace memlake::emulator
