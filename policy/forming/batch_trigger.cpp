// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/batch_trigger.hpp"

#include <algorithm>

namespace troupe {

std::chrono::steady_clock::time_point start_time(const TriggerRule& rule, const WaitingTexts& waiting,
                                                 const EncoderBatchLimits& limits) {
  const bool is_full = waiting.num_texts >= limits.max_texts || waiting.num_tokens >= limits.max_tokens;
  if (rule.trigger == BatchTrigger::kHungry || is_full) return waiting.oldest;
  const auto at_timeout = waiting.oldest + rule.timeout;
  if (rule.objective.count() == 0) return at_timeout;
  return std::min(at_timeout, waiting.oldest + rule.objective / 2 - waiting.run_time);
}

}  // namespace troupe
