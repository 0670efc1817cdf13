// SPDX-License-Identifier: Apache-2.0
// What tests of plans need: files of their own, whole plans, and refusals.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "loadgen/workload/workload_settings.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::loadgen::test {

using troupe::test::TemporaryFile;

std::vector<PlannedConversation> all_of(ConversationSource& source);
std::vector<PlannedConversation> all_of(const WorkloadSettings& settings, std::uint64_t seed);

// What is thrown; empty if nothing is.
std::string refusal_of(const std::function<void()>& act);
// Of making a source and drawing all of it.
std::string refusal_of(const WorkloadSettings& settings);

bool contains(const std::string& text, const std::string& part);

}  // namespace troupe::loadgen::test
