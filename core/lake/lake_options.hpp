#pragma once

// What may be said about a lake. Nothing has to be.

namespace memlake {

struct LakeOptions {
  /// May one chunk be mapped at two places at once? Where a device cannot, a lake moves whole chunks only, and waits in
  /// the host before it does.
  bool may_alias = true;
};

}  // namespace memlake
