#pragma once

// User objects: data of the program that graphs keep alive. References belong to the program or to a graph; an
// executable graph shares the references of its graph. When the last reference is gone, a thread of the emulator calls
// the destructor that the program gave.

#include <cstdint>
#include <map>
#include <memory>

#include "basics/origin.hpp"
#include "basics/refusal.hpp"
#include "cuda/graph_abi.hpp"

namespace memlake::emulator {

struct UserObject {
  std::uint64_t handle;
  void* data;
  CUhostFn destroy;
  std::uint64_t references;
  Origin made_by;
};

class UserObjects {
 public:
  UserObject& create(void* data, CUhostFn destroy, unsigned references, unsigned flags, const Origin& origin);

  /// Throws 1 for an object that does not exist.
  UserObject& find(CUuserObject handle);

  void retain(UserObject& object, std::uint64_t count);
  /// Throws 1 if there are fewer references.
  void release(UserObject& object, std::uint64_t count);

  [[nodiscard]] const std::map<std::uint64_t, UserObject>& all() const { return all_; }

 private:
  std::map<std::uint64_t, UserObject> all_;
  std::uint64_t next_ = 1;
};

/// The references of one graph. Copies retain, and the destructor releases.
class UserObjectReferences {
 public:
  explicit UserObjectReferences(UserObjects& objects) : objects_(&objects) {}
  ~UserObjectReferences();
  UserObjectReferences(const UserObjectReferences& other);
  UserObjectReferences& operator=(const UserObjectReferences&) = delete;

  /// `is_moved`: the program's own references become the graph's.
  void add(UserObject& object, std::uint64_t count, bool is_moved);
  void remove(UserObject& object, std::uint64_t count);
  /// Adds the references of another graph.
  void add(const UserObjectReferences& other);

 private:
  UserObjects* objects_;
  std::map<std::uint64_t, std::uint64_t> counts_;  // by handle
};

inline CUuserObject as_handle(const UserObject& object) { return reinterpret_cast<CUuserObject>(object.handle); }

}  // namespace memlake::emulator
