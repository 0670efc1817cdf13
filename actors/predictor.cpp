// SPDX-License-Identifier: Apache-2.0
#include "actors/predictor.hpp"

#include <array>
#include <string>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "engine/length_answers.hpp"
#include "store/length_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {

PredictorActor::behavior_type make_predictor(PredictorState::Self self, Environment environment) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment));
  return {
      [self](const ForecastLength& message) {
        self->send(caf::actor_cast<SchedulerActor>(self->current_sender()), self->state.foresee(message));
      },
      [self](const LearnLength& message) { self->state.learn(message); },
  };
}

void PredictorState::initialize(Self self, Environment environment) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  const std::size_t num_models = environment_->models.size();
  predictors_.assign(num_models, LengthPredictor(environment_->options.serving.reserved_quantile));
  num_saved_.assign(num_models, 0);
  for (ModelIndex model = 0; model < num_models; ++model) load(model);
}

PredictorState::~PredictorState() {
  for (ModelIndex model = 0; model < predictors_.size(); ++model) save(model);
}

LengthForecast PredictorState::foresee(const ForecastLength& message) {
  const auto begun = self_->clock().now();
  LengthForecast forecast = answer(predictors_.at(message.model), message);
  note_time_since(begun);
  return forecast;
}

void PredictorState::learn(const LearnLength& message) {
  const auto begun = self_->clock().now();
  LengthPredictor& predictor = predictors_.at(message.model);
  predictor.learn(message.sequence, {.num_tokens = message.num_tokens, .is_whole = message.is_whole});
  report();
  note_time_since(begun);
  if (predictor.num_learnt() >= num_saved_[message.model] + kSavedEvery) save(message.model);
}

void PredictorState::note_time_since(std::chrono::steady_clock::time_point begun) const {
  environment_->metrics.forecast_time.add(
      std::chrono::duration<double>(self_->clock().now() - begun).count());
}

void PredictorState::load(ModelIndex model) {
  const auto& directory = environment_->options.store.directory;
  if (!directory) return;
  const std::string& name = environment_->models[model].served.name;
  const auto text = read_length_file(*directory, name);
  if (!text) return;
  auto predictor = LengthPredictor::decode(*text, environment_->options.serving.reserved_quantile);
  if (!predictor) {
    log(LogLevel::kWarning, "what was learnt of lengths is damaged, and is learnt anew",
        {{"model", name}, {"file", length_file_name(name)}});
    return;
  }
  predictors_[model] = std::move(*predictor);
  num_saved_[model] = predictors_[model].num_learnt();
}

// A save that fails costs what was learnt, at the next start, and nothing else.
void PredictorState::save(ModelIndex model) {
  const auto& directory = environment_->options.store.directory;
  const LengthPredictor& predictor = predictors_[model];
  if (!directory || predictor.num_learnt() == num_saved_[model]) return;
  num_saved_[model] = predictor.num_learnt();
  const std::string& name = environment_->models[model].served.name;
  if (const auto problem = write_length_file(*directory, name, predictor.encode()))
    log(LogLevel::kWarning, "what was learnt of lengths is not kept",
        {{"model", name}, {"reason", *problem}});
}

// Over all models, by the answers that each was judged by.
void PredictorState::report() const {
  double num_judged = 0, num_fitted = 0, num_states = 0, log_errors = 0;
  std::array<double, LengthPredictor::kNumTenths> tenths = {};
  std::array<double, LengthPredictor::kNumStages> losses = {};
  for (const LengthPredictor& predictor : predictors_) {
    const auto weight = static_cast<double>(predictor.num_judged());
    num_judged += weight;
    num_fitted += weight * predictor.coverage();
    log_errors += weight * predictor.mean_log_error();
    for (std::size_t tenth = 0; tenth < tenths.size(); ++tenth)
      tenths[tenth] += weight * predictor.coverage(tenth);
    num_states += static_cast<double>(predictor.num_states_learnt());
    for (std::size_t i = 0; i < losses.size(); ++i)
      losses[i] += weight * predictor.mean_loss(static_cast<LengthPredictor::Stage>(i));
  }
  if (num_judged == 0) return;
  const Metrics& metrics = environment_->metrics;
  metrics.forecast_coverage.set(num_fitted / num_judged);
  metrics.forecast_loss_everyone.set(losses[0] / num_judged);
  metrics.forecast_loss_tenant.set(losses[1] / num_judged);
  metrics.forecast_loss_beginning.set(losses[2] / num_judged);
  metrics.forecast_loss_state.set(losses[3] / num_judged);
  metrics.states_learnt.set(num_states);
  metrics.forecast_log_error.set(log_errors / num_judged);
  for (std::size_t tenth = 0; tenth < tenths.size(); ++tenth)
    metrics.forecast_tenths.at(tenth).set(tenths[tenth] / num_judged);
}

}  // namespace troupe
