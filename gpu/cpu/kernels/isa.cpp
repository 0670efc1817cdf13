// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/isa.hpp"

#include <stdexcept>
#include <string>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {

extern const KernelTable kPortableKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Bf16Kernels;
#endif

bool is_supported(Isa isa) {
  if (isa == Isa::kPortable) return true;
#if defined(__x86_64__)
  // The compiler's checks include the operating system's (XGETBV).
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::kPortable: return true;
    case Isa::kAvx2: return has_avx2;  // every CPU with AVX2 has F16C
    case Isa::kAvx512: return has_avx512;
    case Isa::kAvx512Bf16:
      return has_avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
  }
#endif
  return false;
}

Isa best_isa() {
  static const Isa best = [] {
    Isa widest = Isa::kPortable;
    for (const Isa isa : kAllIsas) {
      if (is_supported(isa)) widest = isa;
    }
    return widest;
  }();
  return best;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Bf16: return "avx512_bf16";
  }
  return "?";
}

const KernelTable& kernel_table(Isa isa) {
  static const bool is_runnable[] = {is_supported(Isa::kPortable), is_supported(Isa::kAvx2),
                                     is_supported(Isa::kAvx512), is_supported(Isa::kAvx512Bf16)};
  if (!is_runnable[static_cast<std::size_t>(isa)]) {
    throw std::invalid_argument("this machine does not run kernels for " + std::string(name_of(isa)));
  }
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return kAvx2Kernels;
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx512Bf16) return kAvx512Bf16Kernels;
#endif
  return kPortableKernels;
}

}  // namespace troupe
