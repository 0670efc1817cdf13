// SPDX-License-Identifier: Apache-2.0
// When an encoder's next batch starts. Hungry: as soon as its worker has room for one.
// Lazy: when it is full, when its oldest text has waited for the time-out, or as late as
// half of the latency objective allows (TurboTransformers, §5; Clipper's delayed batching).
#pragma once

#include <chrono>
#include <cstdint>

#include "policy/forming/encoder_batches.hpp"

namespace troupe {

enum class BatchTrigger : std::uint8_t { kHungry, kLazy };

struct TriggerRule {
  BatchTrigger trigger = BatchTrigger::kHungry;
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds objective{0};  // of a text's latency; 0: there is none
};

// Texts that wait for a batch, at least one.
struct WaitingTexts {
  std::chrono::steady_clock::time_point oldest;  // it began to wait
  std::uint32_t num_texts = 0;
  std::uint64_t num_tokens = 0;
  std::chrono::nanoseconds run_time{0};  // the device takes about so long for them
};

// In the past, or now: at once.
std::chrono::steady_clock::time_point start_time(const TriggerRule& rule, const WaitingTexts& waiting,
                                                 const EncoderBatchLimits& limits);

}  // namespace troupe
