// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels of the CPU backend run on. Every kernel is
// compiled once per instruction set, or where one adds to few kernels, these
// alone; the best one the CPU and the operating system support is taken unless
// a caller (a test, a benchmark) names another.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

enum class Isa : std::uint8_t {
  kPortable,    // plain C++, 16-byte vectors
  kAvx2,        // AVX2, FMA, F16C
  kAvx2Vnni,    // the above and AVX-VNNI, for products of rows in 8 bits; the same bits
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // the above, AVX512_BF16 (vdpbf16ps) and AVX512_VNNI, which every CPU with it has
  kAmx,         // the above and AMX tiles of bf16, for products of bf16 with bf16
};

inline constexpr Isa kAllIsas[] = {Isa::kPortable, Isa::kAvx2,       Isa::kAvx2Vnni,
                                   Isa::kAvx512,   Isa::kAvx512Bf16, Isa::kAmx};

// Built in, and supported by CPU and operating system, which is asked for the state of AMX tiles: from
// then on each thread may have it. Where it refuses, kAmx is not supported.
bool is_supported(Isa isa);

// The widest supported one, found once.
Isa best_isa();

std::string_view name_of(Isa isa);

}  // namespace troupe
