#include "base/error.hpp"

#include <utility>

namespace memlake {
namespace {

std::string sentence(const DriverAnswer& answer) {
  std::string text = std::string(answer.call) + " failed with " + answer.name + " (" + std::to_string(answer.code) +
                     "): " + answer.meaning;
  if (!answer.detail.empty()) text += " [" + answer.detail + "]";
  return text;
}

}  // namespace

const char* kind_name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::config:
      return "config";
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::closed:
      return "closed";
    case ErrorKind::invalid_free:
      return "invalid_free";
    case ErrorKind::out_of_memory:
      return "out_of_memory";
    case ErrorKind::address_exhaustion:
      return "address_exhaustion";
    case ErrorKind::sticky:
      return "sticky";
    case ErrorKind::contract_violation:
      return "contract_violation";
    case ErrorKind::not_ready:
      return "not_ready";
    case ErrorKind::driver_gone:
      return "driver_gone";
    case ErrorKind::invalid_call:
      return "invalid_call";
    case ErrorKind::other:
      return "other";
  }
  return "other";
}

Error::Error(ErrorKind kind, std::string message)
    : kind_(kind), message_(std::make_shared<const std::string>(std::move(message))) {}

Error::Error(ErrorKind kind, DriverAnswer answer)
    : kind_(kind),
      answer_(std::make_shared<const DriverAnswer>(std::move(answer))),
      message_(std::make_shared<const std::string>(sentence(*answer_))) {}

Error::~Error() = default;

const char* Error::what() const noexcept { return message_->c_str(); }

}  // namespace memlake
