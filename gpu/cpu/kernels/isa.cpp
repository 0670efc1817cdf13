// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/isa.hpp"

#include <iterator>
#include <stdexcept>
#include <string>

#include "gpu/cpu/kernels/kernel_table.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace troupe {

extern const KernelTable kPortableKernels;

namespace {

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows it.
bool has_avx_vnni() {
  unsigned last_subleaf = 0, eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &last_subleaf, &ebx, &ecx, &edx) == 0 || last_subleaf < 1) return false;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1U) != 0;
}

// The processor has the tiles' state and products of bf16, and the system saves that state.
bool has_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kTile = 1U << 24, kBf16 = 1U << 22;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (~edx & (kTile | kBf16)) != 0) return false;
  constexpr unsigned kXsaveIsOn = 1U << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kXsaveIsOn) == 0) return false;
  constexpr unsigned kTileStates = 3U << 17;
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & kTileStates) == kTileStates;
}

// Linux gives a process the tiles' state when it asks. Versions before 5.16 and filters of system calls
// refuse.
bool is_granted_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return has_tiles() && ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx() {
  static const bool has = is_granted_tiles() && rows_agree_on_amx();
  return has;
}

// Made at run time, here: a file compiled for a set runs nothing where the set is not supported.
KernelTable with_products(KernelTable kernels, void (*multiply)(const MatmulBlock&)) {
  kernels.multiply = multiply;
  return kernels;
}
#endif

}  // namespace

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
    case Isa::kAvx2Vnni: return has_avx2 && has_avx_vnni();
    case Isa::kAvx512: return has_avx512;
    case Isa::kAvx512Bf16:
      return has_avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
    case Isa::kAmx: return is_supported(Isa::kAvx512Bf16) && has_amx();
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
    case Isa::kAvx2Vnni: return "avx2_vnni";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Bf16: return "avx512_bf16";
    case Isa::kAmx: return "amx";
  }
  return "?";
}

const KernelTable& kernel_table(Isa isa) {
  static const bool is_runnable[] = {is_supported(Isa::kPortable),   is_supported(Isa::kAvx2),
                                     is_supported(Isa::kAvx2Vnni),   is_supported(Isa::kAvx512),
                                     is_supported(Isa::kAvx512Bf16), is_supported(Isa::kAmx)};
  static_assert(std::size(is_runnable) == std::size(kAllIsas));
  if (!is_runnable[static_cast<std::size_t>(isa)]) {
    throw std::invalid_argument("this machine does not run kernels for " + std::string(name_of(isa)));
  }
#if defined(__x86_64__)
  static const KernelTable avx2_vnni = with_products(kAvx2Kernels, multiply_on_avx2_vnni);
  static const KernelTable amx = with_products(kAvx512Bf16Kernels, multiply_on_amx);
  if (isa == Isa::kAvx2) return kAvx2Kernels;
  if (isa == Isa::kAvx2Vnni) return avx2_vnni;
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx512Bf16) return kAvx512Bf16Kernels;
  if (isa == Isa::kAmx) return amx;
#endif
  return kPortableKernels;
}

}  // namespace troupe
