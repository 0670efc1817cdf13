// SPDX-License-Identifier: Apache-2.0
// The entry of a libFuzzer program: one target, TROUPE_FUZZ_TARGET.
#include "tests/fuzz/fuzz_targets.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    troupe::fuzz::TROUPE_FUZZ_TARGET({reinterpret_cast<const char*>(bytes), size});
  } catch (const troupe::fuzz::PropertyBroken& broken) {
    std::fprintf(stderr, "a property is broken: %s\n", broken.sentence.c_str());
    std::abort();
  }
  return 0;
}
