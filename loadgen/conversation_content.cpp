// SPDX-License-Identifier: Apache-2.0
#include "loadgen/conversation_content.hpp"

#include <stdexcept>

#include "loadgen/synthetic_content.hpp"

namespace troupe::loadgen {

std::unique_ptr<ConversationContent> make_content(const ClassSettings& settings, std::uint32_t class_index,
                                                  std::uint64_t seed) {
  switch (settings.content) {
    case ClassSettings::Content::kSynthetic:
      return std::make_unique<SyntheticContent>(settings, class_index, seed);
    case ClassSettings::Content::kQuestions:
    case ClassSettings::Content::kTrace: break;
  }
  throw std::runtime_error("questions and traces are not there yet");
}

}  // namespace troupe::loadgen
