#pragma once

// SharedObject: a library opened at run time. memlake is never linked against a driver.

#include <string>

namespace memlake {

class SharedObject {
 public:
  /// Throws Error(config) with the name tried and the loader's own sentence.
  explicit SharedObject(const std::string& file);
  SharedObject(SharedObject&& other) noexcept;
  SharedObject& operator=(SharedObject&&) = delete;
  ~SharedObject();

  /// Null if the library does not export it.
  void* symbol(const char* name) const noexcept;

  /// Equal for two objects exactly if they opened the same file, even under different names.
  const void* identity() const noexcept { return handle_; }
  const std::string& file() const noexcept { return file_; }

 private:
  std::string file_;
  void* handle_;
};

}  // namespace memlake
