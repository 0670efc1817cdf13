// SPDX-License-Identifier: Apache-2.0
// The name of a full KV page in the prefix index: a keyed 128-bit hash of the
// tokens in it, chained on the page before. The key is drawn at start and never
// leaves the process, so no client can aim at somebody else's page.
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
