// SPDX-License-Identifier: Apache-2.0
#include "tests/loadgen/workload/traces/trace_text.hpp"

#include <exception>
#include <sstream>
#include <stdexcept>

#include "loadgen/workload/random_source.hpp"
#include "tests/loadgen/workload/planned_input.hpp"

namespace troupe::loadgen::test {
namespace {

constexpr int kNumVersions = 3000;

std::string changed(std::string text, RandomSource& random) {
  for (auto changes = 1 + random.below(4); changes > 0 && !text.empty(); --changes) {
    const auto at = random.below(text.size());
    const auto length = 1 + random.below(8);
    switch (random.below(5)) {
      case 0: text[at] = static_cast<char>(random.below(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(random.below(text.size()), length)); break;
      case 3: text.resize(at); break;
      default: text[at] = "{}[]\",:-.0e9\n"[random.below(13)]; break;
    }
  }
  return text;
}

}  // namespace

TraceInput trace_input(const std::string& text) {
  return {std::make_unique<std::istringstream>(text), "trace"};
}

std::string trace_refusal(const ReadTrace& read, const std::string& text) {
  return refusal_of([&] { all_of(*read(trace_input(text))); });
}

std::string mistreat(const ReadTrace& read, const std::string& text) {
  RandomSource random(5);
  for (int version = 0; version < kNumVersions; ++version) {
    try {
      all_of(*read(trace_input(changed(text, random))));
    } catch (const std::runtime_error& error) {
      if (!std::string(error.what()).starts_with("trace:")) return error.what();
    } catch (const std::exception& error) {
      return std::string("not a runtime_error: ") + error.what();
    }
  }
  return "";
}

}  // namespace troupe::loadgen::test
