// SPDX-License-Identifier: Apache-2.0
// What the simulated model answers, worked out without any engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "gpu/device.hpp"

namespace troupe::sim {

struct ExpectedToken {
  std::int32_t id = 0;
  std::size_t begin = 0;     // of its text in the answer's
  std::size_t position = 0;  // in the sequence
};

struct ExpectedAnswer {
  std::string text;
  std::string calls;                  // of tools, as add_calls() writes them
  std::vector<ExpectedToken> tokens;  // whose text, or the place for it, is in the answer
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_string;
  std::optional<std::int32_t> stop_token;
  std::uint32_t completion_tokens = 0;
};

// Pairs of a letter up to m and one behind it: the only form that expected_answer() knows.
OutputForm sim_form(std::uint32_t num_pairs);

// The request must be one that is accepted, with a seed, and a prompt of text or tokens, or one of
// sim_tools_prompt().
ExpectedAnswer expected_answer(const GenerationRequest& request, const DeviceDescription& device);

}  // namespace troupe::sim
