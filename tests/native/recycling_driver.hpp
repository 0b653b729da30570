#pragma once

// RecyclingDriver: a driver that gives the handle of a destroyed stream to the next new stream, as real drivers do. The
// emulator never gives a handle out twice.

#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "driver/driver.hpp"

namespace memlake::test {

class RecyclingDriver final : public Driver {
 public:
  explicit RecyclingDriver(Driver& inner) : inner_(inner) {}

#define F(name, symbol, need, parameters, arguments) \
  CUresult name parameters override { return pass(Call::name, &Driver::name, std::make_tuple arguments); }
#include "driver/functions.inc"
#undef F

  Explanation explain(Call call, CUresult result) const override { return inner_.explain(call, result); }

 private:
  template <class Function, class Arguments>
  CUresult pass(Call call, Function function, Arguments arguments) {
    const auto send = [&](auto... values) { return (inner_.*function)(real(values)...); };
    const CUresult result = std::apply(send, arguments);
    if (result != CUDA_SUCCESS) return result;
    const std::lock_guard lock(mutex_);
    if constexpr (std::tuple_size_v<Arguments> > 0) {
      using First = std::tuple_element_t<0, Arguments>;
      if constexpr (std::is_same_v<First, CUstream*>) *std::get<0>(arguments) = give_handle(*std::get<0>(arguments));
      if constexpr (std::is_same_v<First, CUstream>)
        if (call == Call::cuStreamDestroy) take_handle(std::get<0>(arguments));
    }
    return result;
  }

  template <class T>
  T real(T value) {
    if constexpr (std::is_same_v<T, CUstream>) {
      const std::lock_guard lock(mutex_);
      const auto found = real_.find(value);
      return found == real_.end() ? value : found->second;
    } else {
      return value;
    }
  }
  CUstream give_handle(CUstream stream) {
    CUstream handle = stream;
    if (!free_.empty()) {
      handle = free_.back();
      free_.pop_back();
    }
    real_[handle] = stream;
    return handle;
  }
  void take_handle(CUstream handle) {
    real_.erase(handle);
    free_.push_back(handle);
  }

  Driver& inner_;
  std::mutex mutex_;
  std::map<CUstream, CUstream> real_;
  std::vector<CUstream> free_;
};

}  // namespace memlake::test
