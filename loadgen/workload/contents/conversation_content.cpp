// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/contents/conversation_content.hpp"

#include "loadgen/workload/contents/question_content.hpp"
#include "loadgen/workload/contents/synthetic_content.hpp"
#include "loadgen/workload/contents/trace_content.hpp"

namespace troupe::loadgen {

std::unique_ptr<ConversationContent> make_content(const WorkloadSettings& settings, std::uint32_t class_index,
                                                  std::uint64_t seed) {
  const auto& c = settings.classes[class_index];
  switch (c.content) {
    case ClassSettings::Content::kQuestions: return std::make_unique<QuestionContent>(c, seed);
    case ClassSettings::Content::kTrace:
      return std::make_unique<TraceContent>(c, is_plan_replay(settings), seed);
    case ClassSettings::Content::kSynthetic: break;
  }
  return std::make_unique<SyntheticContent>(c, class_index, seed);
}

}  // namespace troupe::loadgen
