#pragma once

// What may be said about a lake. Nothing has to be.

namespace memlake {

/// On which of several devices new memory is made.
enum class Placement {
  fill,     ///< the first that has room
  balance,  ///< the one of which the smallest share is held
  near,     ///< the one that the request's stream works on, then as fill
};

struct LakeOptions {
  /// May one chunk be mapped at two places at once? Where a device cannot, a lake moves whole chunks only, and waits in
  /// the host before it does.
  bool may_alias = true;
  Placement placement = Placement::fill;
};

}  // namespace memlake
