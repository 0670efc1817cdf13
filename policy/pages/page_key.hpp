// SPDX-License-Identifier: Apache-2.0
// A keyed 128-bit hash of tokens, chained on another one. Tenants are named by it:
// the key is drawn at start and never leaves the state directory, so no client can
// aim at another tenant's pages.
#pragma once

#include <cstdint>
#include <span>

namespace troupe {

struct PageKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const PageKey&) const = default;
};

struct PageSecret {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

// SipHash-2-4 with 128 bits of output over (parent, tokens).
PageKey page_key(const PageSecret& secret, const PageKey& parent, std::span<const std::int32_t> tokens);

}  // namespace troupe
