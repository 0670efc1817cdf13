// SPDX-License-Identifier: Apache-2.0
// Accesses through pointers that are not aligned, which a GPU refuses and x86 does not. Kernels are compiled
// with -fsanitize=alignment; its checks call this in place of the sanitizer's library, so that the fault is a
// KernelError in every build. Sanitized builds have that library.
#include <cstdint>
#include <string>

#include "tests/simt/interpreter/kernel_error.hpp"
#include "tests/support/sanitizers.hpp"

#if !defined(TROUPE_ASAN) && !defined(TROUPE_TSAN)

namespace {

// As GCC and Clang pass it.
struct TypeMismatch {
  struct {
    const char* file;
    std::uint32_t line, column;
  } place;
  const void* type;
  unsigned char log_alignment;
  unsigned char kind;  // load, store, ...
};

}  // namespace

extern "C" void __ubsan_handle_type_mismatch_v1_abort(const TypeMismatch* mismatch, std::uintptr_t address) {
  const std::uintptr_t alignment = std::uintptr_t{1} << mismatch->log_alignment;
  const std::string file(mismatch->place.file);
  throw troupe::simt::KernelError(
      file.substr(file.rfind('/') + 1) + ":" + std::to_string(mismatch->place.line) +
      ": access of what must lie on a multiple of " + std::to_string(alignment) +
      " bytes, at an address that is " + std::to_string(address % alignment) + " bytes off");
}

#endif
