// SPDX-License-Identifier: Apache-2.0
// The core's questions about lengths, put to a predictor, and its reports of them: by its actor, and
// by a simulated server.
#pragma once

#include <span>

#include "engine/command.hpp"
#include "engine/event.hpp"
#include "policy/lengths/length_predictor.hpp"

namespace troupe {

// No answers: nothing is to be changed.
LengthForecast answer(LengthPredictor& predictor, const ForecastLength& command);
// So, too, to an encoder's vector of the sequence's prompt.
LengthForecast answer(LengthPredictor& predictor, SequenceId sequence, std::span<const float> vector);
void learn(LengthPredictor& predictor, const LearnLength& command);

}  // namespace troupe
