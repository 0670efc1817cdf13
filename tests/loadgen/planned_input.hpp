// SPDX-License-Identifier: Apache-2.0
// What tests of plans need: files that go away, whole plans, and refusals.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "loadgen/workload_settings.hpp"

namespace troupe::loadgen::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<PlannedConversation> all_of(ConversationSource& source);
std::vector<PlannedConversation> all_of(const WorkloadSettings& settings, std::uint64_t seed);

// What is thrown; empty if nothing is.
std::string refusal_of(const std::function<void()>& act);
// Of making a source and drawing all of it.
std::string refusal_of(const WorkloadSettings& settings);

bool contains(const std::string& text, const std::string& part);

}  // namespace troupe::loadgen::test
