#pragma once

// The launch of an executable graph: its nodes become work of one stream, in an order that respects the edges.

#include "graphs/graph_exec.hpp"
#include "process/driver.hpp"

namespace memlake::emulator {

/// Queues all nodes of the graph on the stream, or throws and changes nothing.
void launch_graph(Driver& driver, Exec& exec, Stream& stream, const Origin& origin);

}  // namespace memlake::emulator
