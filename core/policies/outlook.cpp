#include "policies/outlook.hpp"

#include "base/bytes_text.hpp"

namespace memlake {

std::string advice_about_moving(Bytes rounded, Bytes movable) {
  if (movable < rounded)
    return "too much of it lies beside live buffers in pieces of less than " + to_text(kMovable) +
           ", which no policy can move; close the buffers between them, or ask for less";
  return "the policy lake moves such pieces together, so it may serve this request, and `memlake fit` says what each "
         "policy needs for a recording";
}

}  // namespace memlake
