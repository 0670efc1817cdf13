// SPDX-License-Identifier: Apache-2.0
// The counter-based generator of draws, Philox4x32-10 (Salmon et al., SC 2011):
// the same numbers as the CPU's uniform_draw (gpu/cpu/kernels/sample.hpp).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace troupe::cuda {

// Uniform in [0, 1), 53 bits.
__device__ __forceinline__ double uniform_draw(std::uint64_t seed, std::uint64_t position) {
  unsigned counter[4] = {static_cast<unsigned>(position), static_cast<unsigned>(position >> 32), 0, 0};
  unsigned key[2] = {static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    constexpr unsigned kFirst = 0xD2511F53, kSecond = 0xCD9E8D57;
    const unsigned first_low = kFirst * counter[0], first_high = __umulhi(kFirst, counter[0]);
    const unsigned second_low = kSecond * counter[2], second_high = __umulhi(kSecond, counter[2]);
    counter[0] = second_high ^ counter[1] ^ key[0];
    counter[1] = second_low;
    counter[2] = first_high ^ counter[3] ^ key[1];
    counter[3] = first_low;
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  const std::uint64_t bits = (std::uint64_t{counter[1]} << 32 | counter[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace troupe::cuda
