// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of bytes into frames, wherever the pieces begin and end. It
// keeps what has come and no more: a length that a header claims allocates
// nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "gpu/child/messages.hpp"

namespace troupe::child {

class FrameDecoder {
 public:
  void add(std::span<const std::byte> bytes);

  // The next frame, if it is here as a whole. Throws ProtocolError if what has
  // come is no frame of this protocol; nothing can be read after that.
  std::optional<Frame> take();

 private:
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;  // of what is not taken yet
};

}  // namespace troupe::child
