// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/page_checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {

struct PageChecksum::State {
  XXH3_state_t hash;
};

PageChecksum::PageChecksum(std::uint64_t generation) : state_(std::make_unique<State>()) {
  XXH3_64bits_reset_withSeed(&state_->hash, generation);
}

PageChecksum::~PageChecksum() = default;
PageChecksum::PageChecksum(PageChecksum&&) noexcept = default;
PageChecksum& PageChecksum::operator=(PageChecksum&&) noexcept = default;

void PageChecksum::add(std::span<const std::byte> piece) {
  XXH3_64bits_update(&state_->hash, piece.data(), piece.size());
}

std::uint64_t PageChecksum::value() const { return XXH3_64bits_digest(&state_->hash); }

std::uint64_t page_checksum(std::span<const std::byte> bytes, std::uint64_t generation) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), generation);
}

}  // namespace troupe
