// SPDX-License-Identifier: Apache-2.0
// TROUPE_ASAN and TROUPE_TSAN are defined where a source is compiled under that
// sanitizer: GCC says so by a macro, Clang by a feature.
#pragma once

#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_ASAN
#elif __has_feature(thread_sanitizer)
#define TROUPE_TSAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TROUPE_ASAN
#elif defined(__SANITIZE_THREAD__)
#define TROUPE_TSAN
#endif

namespace troupe::test {

#if defined(TROUPE_ASAN) || defined(TROUPE_TSAN)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// Of the seeds or states that a release build goes through, so many are enough where each
// takes several times as long and the fault looked for is one of memory.
constexpr std::uint64_t fewer_if_sanitized(std::uint64_t number, std::uint64_t divisor = 4) {
  return kIsSanitized ? number / divisor : number;
}

}  // namespace troupe::test
