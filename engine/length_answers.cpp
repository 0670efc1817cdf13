// SPDX-License-Identifier: Apache-2.0
#include "engine/length_answers.hpp"

namespace troupe {

LengthForecast answer(LengthPredictor& predictor, const ForecastLength& command) {
  LengthForecast forecast;
  forecast.answers.reserve(command.questions.size());
  for (const ForecastLength::Question& question : command.questions) {
    if (question.state) {
      if (const auto guess = predictor.refine(question.sequence, *question.state))
        forecast.answers.push_back({.sequence = question.sequence,
                                    .reserved_tokens = guess->reserved,
                                    .likely_tokens = guess->likely,
                                    .is_refined = true});
      continue;
    }
    const LengthGuess guess = predictor.foresee(question.sequence, {.tenant = question.ticket->flow,
                                                                    .prompt = question.ticket->prompt,
                                                                    .max_tokens = question.max_tokens});
    forecast.answers.push_back(
        {.sequence = question.sequence, .reserved_tokens = guess.reserved, .likely_tokens = guess.likely});
  }
  return forecast;
}

}  // namespace troupe
