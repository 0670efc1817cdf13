// SPDX-License-Identifier: Apache-2.0
#include "engine/length_answers.hpp"

namespace troupe {

LengthForecast answer(LengthPredictor& predictor, const ForecastLength& command) {
  LengthForecast forecast;
  forecast.answers.reserve(command.questions.size());
  for (const ForecastLength::Question& question : command.questions) {
    if (question.state) {
      const auto guess =
          question.num_generated == 0
              ? predictor.refine(question.sequence, *question.state)
              : predictor.look(question.sequence, *question.state,
                               {.num_generated = question.num_generated, .page_size = command.page_size});
      if (guess)
        forecast.answers.push_back({.sequence = question.sequence,
                                    .reserved_tokens = guess->reserved,
                                    .likely_tokens = guess->likely,
                                    .is_refined = true,
                                    .num_generated = question.num_generated});
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

LengthForecast answer(LengthPredictor& predictor, SequenceId sequence, std::span<const float> vector) {
  LengthForecast forecast;
  if (const auto guess = predictor.read(sequence, vector))
    forecast.answers.push_back(
        {.sequence = sequence, .reserved_tokens = guess->reserved, .likely_tokens = guess->likely});
  return forecast;
}

void learn(LengthPredictor& predictor, const LearnLength& command) {
  predictor.learn(command.sequence, {.num_tokens = command.num_tokens, .is_whole = command.is_whole},
                  command.costs);
  for (const LearnLength::Running& running : command.running)
    predictor.note_running(running.sequence, running.num_tokens);
}

}  // namespace troupe
