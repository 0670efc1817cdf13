// SPDX-License-Identifier: Apache-2.0
// The checksum of a KV page's bytes (XXH3, 64 bits), taken while they are copied
// piece by piece: each piece is in the processor's cache then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace troupe {

// One thread at a time.
class PageChecksum {
 public:
  // Two generations of the same bytes have different checksums.
  explicit PageChecksum(std::uint64_t generation);
  ~PageChecksum();
  PageChecksum(PageChecksum&&) noexcept;
  PageChecksum& operator=(PageChecksum&&) noexcept;

  // In order; where the pieces are cut changes nothing.
  void add(std::span<const std::byte> piece);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Checksum of all bytes at once.
std::uint64_t page_checksum(std::span<const std::byte> bytes, std::uint64_t generation);

}  // namespace troupe
