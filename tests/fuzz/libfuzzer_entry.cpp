// SPDX-License-Identifier: Apache-2.0
// The entry of the libFuzzer program: runs the target that the environment variable
// TROUPE_FUZZ_TARGET names.
#include "tests/fuzz/fuzz_targets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/property.hpp"

namespace troupe::fuzz {
namespace {

const FuzzTarget* g_target = nullptr;

const FuzzTarget* named_target() {
  const char* name = std::getenv("TROUPE_FUZZ_TARGET");
  if (name == nullptr) return nullptr;
  const auto* found = std::find_if(kFuzzTargets.begin(), kFuzzTargets.end(),
                                   [&](const FuzzTarget& target) { return target.name == name; });
  return found == kFuzzTargets.end() ? nullptr : &*found;
}

}  // namespace
}  // namespace troupe::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  using namespace troupe::fuzz;
  g_target = named_target();
  if (g_target != nullptr) return 0;
  std::fprintf(stderr, "TROUPE_FUZZ_TARGET names no target; there are:");
  for (const FuzzTarget& target : kFuzzTargets) std::fprintf(stderr, " %s", target.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    troupe::fuzz::g_target->run({reinterpret_cast<const char*>(bytes), size});
  } catch (const troupe::fuzz::PropertyBroken& broken) {
    std::fprintf(stderr, "a property is broken: %s\n", broken.sentence.c_str());
    std::abort();
  }
  return 0;
}
