// SPDX-License-Identifier: Apache-2.0
// TROUPE_ASAN and TROUPE_TSAN are defined where a source is compiled under that
// sanitizer: GCC says so by a macro, Clang by a feature.
#pragma once

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
