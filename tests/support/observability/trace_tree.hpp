// SPDX-License-Identifier: Apache-2.0
// Received spans put together again as requests, and what every tree must be.
#pragma once

#include <string>
#include <vector>

#include "tests/support/observability/otlp_sink.hpp"

namespace troupe::test {

struct TraceTree {
  ReceivedSpan root;
  std::vector<ReceivedSpan> phases;  // in order of their begin

  std::vector<std::string> phase_names() const;
  const ReceivedSpan& phase(const std::string& name) const;  // the first; throws if there is none
};

// Roots are the spans of kind SERVER.
std::vector<TraceTree> trees_of(const std::vector<ReceivedSpan>& spans);
std::vector<ReceivedSpan> iterations_of(const std::vector<ReceivedSpan>& spans);

// What is wrong with a tree's ids and times; empty if nothing. Phases must lie
// within the root, one after the other, and events within it too.
std::string problems_of(const TraceTree& tree);

}  // namespace troupe::test
