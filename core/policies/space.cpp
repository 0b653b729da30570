#include "policies/space.hpp"

#include "base/error.hpp"

namespace memlake {

void Space::set_peers(const Devices& peers) {
  const Devices before = reach_.peers();
  const Devices after = reach_.without_own(peers);
  const Devices added = without(after, before);
  const Devices removed = without(before, after);
  if (!added.empty() || !removed.empty()) {
    if (facets_.peer_access == nullptr)
      throw Error(
          ErrorKind::config,
          "this policy takes memory with cuMemAlloc, and access to that is a matter of whole contexts, not of a "
          "pool; use the policy lake, expandable or driver");
    facets_.peer_access->change_access(added, removed);
  }
  reach_.set_peers(after);
}

}  // namespace memlake
