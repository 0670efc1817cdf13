// SPDX-License-Identifier: Apache-2.0
#include "tests/loadgen/workload/planned_input.hpp"

#include <stdexcept>

namespace troupe::loadgen::test {

std::vector<PlannedConversation> all_of(ConversationSource& source) {
  std::vector<PlannedConversation> all;
  PlannedConversation conversation;
  while (source.next(conversation)) all.push_back(conversation);
  return all;
}

std::vector<PlannedConversation> all_of(const WorkloadSettings& settings, std::uint64_t seed) {
  return all_of(*make_source(settings, seed));
}

std::string refusal_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::string refusal_of(const WorkloadSettings& settings) {
  return refusal_of([&] { all_of(settings, 1); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace troupe::loadgen::test
