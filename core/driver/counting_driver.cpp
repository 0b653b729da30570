#include "driver/counting_driver.hpp"

#include <utility>

namespace memlake {

// Charge<call> is told the arguments before the call is passed on, and the result after it. Most calls are free.
template <Call call>
struct CountingDriver::Charge {
  explicit Charge(CountingDriver&) {}
  template <class... Arguments>
  void before(const Arguments&...) {}
  void after(CUresult) {}
};

// A call with a fixed price.
#define PRICE(call, price)                                                          \
  template <>                                                                       \
  struct CountingDriver::Charge<Call::call> {                                       \
    explicit Charge(CountingDriver& driver) { driver.add_us(driver.costs_.price); } \
    template <class... Arguments>                                                   \
    void before(const Arguments&...) {}                                             \
    void after(CUresult) {}                                                         \
  }
PRICE(cuMemAddressReserve, address_reserve);
PRICE(cuMemAddressFree, address_free);
PRICE(cuMemRelease, release);
PRICE(cuMemAlloc, alloc);
PRICE(cuMemFree, free);
#undef PRICE

template <>
struct CountingDriver::Charge<Call::cuMemCreate> {
  CountingDriver& driver;
  void before(const void*, size_t size, const void*, unsigned long long) {
    driver.add_us(driver.costs_.create_of({size}));
  }
  void after(CUresult) {}
};

template <>
struct CountingDriver::Charge<Call::cuMemMap> {
  CountingDriver& driver;
  AddressRange range{};
  void before(CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle, unsigned long long) {
    range = {{address}, {size}};
    driver.add_us(driver.costs_.map);
  }
  void after(CUresult result) {
    if (result == CUDA_SUCCESS) driver.mapped_.add(range);
  }
};

template <>
struct CountingDriver::Charge<Call::cuMemUnmap> {
  CountingDriver& driver;
  MappedHandles::Map taken{};
  void before(CUdeviceptr address, size_t size) {
    taken = driver.mapped_.take_from({{address}, {size}});
    driver.add_us(driver.costs_.unmap_per_handle * static_cast<double>(taken.size()));
  }
  void after(CUresult result) {
    if (result != CUDA_SUCCESS) driver.mapped_.put_back(std::move(taken));
  }
};

template <>
struct CountingDriver::Charge<Call::cuMemSetAccess> {
  CountingDriver& driver;
  void before(CUdeviceptr address, size_t size, const void*, size_t descriptors) {
    const auto handles = driver.mapped_.count_in({{address}, {size}});
    driver.add_us(driver.costs_.set_access_per_handle * static_cast<double>(handles) *
                  static_cast<double>(descriptors));
  }
  void after(CUresult) {}
};

#define F(name, symbol, need, parameters, arguments)     \
  CUresult CountingDriver::name parameters {             \
    add_call(Call::name);                                \
    Charge<Call::name> charge{*this};                    \
    charge.before arguments;                             \
    const CUresult answer = inner_.name arguments;       \
    charge.after(answer);                                \
    if (answer != CUDA_SUCCESS) add_failure(Call::name); \
    return answer;                                       \
  }
#include "driver/functions.inc"
#undef F

void CountingDriver::reset() noexcept {
  for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
  for (auto& count : failures_) count.store(0, std::memory_order_relaxed);
  modelled_us_.store(0, std::memory_order_relaxed);
}

}  // namespace memlake
