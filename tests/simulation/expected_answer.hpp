// SPDX-License-Identifier: Apache-2.0
// What the simulated model answers, worked out without any engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/generation_request.hpp"
#include "gpu/device.hpp"

namespace troupe::sim {

struct ExpectedAnswer {
  std::string text;
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_string;
  std::optional<std::int32_t> stop_token;
  std::uint32_t completion_tokens = 0;
};

// The request must be one that is accepted, with a prompt of text or tokens and
// a seed.
ExpectedAnswer expected_answer(const GenerationRequest& request, const DeviceDescription& device);

}  // namespace troupe::sim
