// SPDX-License-Identifier: Apache-2.0
#include "actors/lengths/predictor.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/lengths/prompt_reader.hpp"
#include "engine/length_answers.hpp"
#include "store/length_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {

PredictorActor::behavior_type make_predictor(PredictorState::Self self, Environment environment) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment));
  return {
      [self](const ForecastLength& message) {
        const auto scheduler = caf::actor_cast<SchedulerActor>(self->current_sender());
        LengthForecast forecast = self->state.foresee(message);
        if (!forecast.answers.empty()) self->send(scheduler, std::move(forecast));
        self->state.have_read(message, scheduler);
      },
      [self](const LearnLength& message) { self->state.learn(message); },
      [self](const PromptRead& message) { self->state.take_vector(message); },
  };
}

void PredictorState::initialize(Self self, Environment environment) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  const std::size_t num_models = environment_->models.size();
  predictors_.assign(num_models, LengthPredictor(environment_->options.serving.aimed_quantile()));
  num_saved_.assign(num_models, 0);
  for (ModelIndex model = 0; model < num_models; ++model) load(model);
}

PredictorState::~PredictorState() {
  for (ModelIndex model = 0; model < predictors_.size(); ++model) save(model);
  send_stop(reader_);
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
  asked_.erase(message.sequence);
  if (reading_.erase(message.sequence) > 0) self_->send(reader_, DropPrompt{message.sequence});
  troupe::learn(predictor, message);
  report();
  note_time_since(begun);
  if (predictor.num_learnt() >= num_saved_[message.model] + kSavedEvery) save(message.model);
}

void PredictorState::have_read(const ForecastLength& message, const SchedulerActor& scheduler) {
  const auto encoder = environment_->options.length_encoder;
  if (!encoder) return;
  for (const ForecastLength::Question& question : message.questions) {
    const bool is_wanted = question.waits && !asked_.contains(question.sequence) &&
                           predictors_[message.model].lacks_vector(question.sequence);
    if (!is_wanted) continue;
    const std::string& flow = question.ticket->flow;
    if (!has_place(flow)) {
      environment_->metrics.prompts_read_skipped.add();
      continue;
    }
    if (!reader_) {
      scheduler_ = scheduler;
      reader_ = self_->system().spawn(make_prompt_reader, environment_, *encoder, scheduler,
                                      caf::actor_cast<PredictorActor>(self_));
    }
    reading_.emplace(question.sequence, flow);
    asked_.insert(question.sequence);
    self_->send(reader_, ReadPrompt{question.ticket});
  }
}

bool PredictorState::has_place(const std::string& flow) const {
  const auto num_of_flow =
      std::ranges::count_if(reading_, [&](const auto& entry) { return entry.second == flow; });
  return reading_.size() < kMostReading && std::cmp_less(num_of_flow, kMostReadingOfFlow);
}

void PredictorState::take_vector(const PromptRead& message) {
  if (reading_.erase(message.sequence) == 0 || !message.vector) return;
  const auto begun = self_->clock().now();
  LengthForecast forecast = answer(predictors_.at(message.model), message.sequence, *message.vector);
  if (!forecast.answers.empty()) self_->send(scheduler_, std::move(forecast));
  note_time_since(begun);
}

// nullopt: there is none, or it is not known, and nothing is kept of what was learnt of its vectors.
std::optional<std::uint64_t> PredictorState::encoder_fingerprint() const {
  const auto encoder = environment_->options.length_encoder;
  return encoder ? environment_->models[*encoder].served.fingerprint : std::nullopt;
}

void PredictorState::note_time_since(std::chrono::steady_clock::time_point begun) const {
  environment_->metrics.forecast_time.add(
      std::chrono::duration<double>(self_->clock().now() - begun).count());
}

void PredictorState::load(ModelIndex model) {
  const auto& directory = environment_->options.store.directory;
  if (!directory) return;
  const ServedModel& served = environment_->models[model].served;
  if (!served.fingerprint) return;
  const auto text = read_length_file(*directory, served.name);
  if (!text) return;
  auto predictor = LengthPredictor::decode(*text, environment_->options.serving.aimed_quantile(),
                                           *served.fingerprint, encoder_fingerprint());
  if (!predictor) {
    log(LogLevel::kWarning,
        "what was learnt of lengths is damaged, of another version or of another model of this name, "
        "and is learnt anew",
        {{"model", served.name}, {"file", length_file_name(served.name)}});
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
  const ServedModel& served = environment_->models[model].served;
  if (!served.fingerprint) return;
  const std::string text = predictor.encode(*served.fingerprint, encoder_fingerprint());
  if (const auto problem = write_length_file(*directory, served.name, text))
    log(LogLevel::kWarning, "what was learnt of lengths is not kept",
        {{"model", served.name}, {"reason", *problem}});
}

// Over all models, by the answers that each was judged by.
void PredictorState::report() const {
  const Metrics& metrics = environment_->metrics;
  using Accuracy = const ForecastAccuracy&;
  const auto set_mean_over = [this](const Gauge& gauge, const auto& num_answers, const auto& of) {
    double sum = 0, num_judged = 0;
    for (const LengthPredictor& predictor : predictors_) {
      const auto weight = static_cast<double>(num_answers(predictor.accuracy()));
      sum += weight * of(predictor.accuracy());
      num_judged += weight;
    }
    if (num_judged > 0) gauge.set(sum / num_judged);
  };
  const auto set_mean = [&](const Gauge& gauge, const auto& of) {
    set_mean_over(
        gauge, [](Accuracy accuracy) { return accuracy.size(); }, of);
  };
  const auto set_mean_loss = [&](const Gauge& gauge, const auto& of) {
    set_mean_over(
        gauge, [](Accuracy accuracy) { return accuracy.num_compared(); }, of);
  };
  set_mean(metrics.forecast_quantile, [](Accuracy accuracy) { return accuracy.quantile(); });
  set_mean(metrics.forecast_coverage, [](Accuracy accuracy) { return accuracy.coverage(); });
  set_mean(metrics.forecast_log_error, [](Accuracy accuracy) { return accuracy.mean_log_error(); });
  set_mean_loss(metrics.forecast_loss_constant, [](Accuracy accuracy) { return accuracy.constant_loss(); });
  for (std::size_t tenth = 0; tenth < ForecastAccuracy::kNumTenths; ++tenth)
    set_mean(metrics.forecast_tenths.at(tenth), [&](Accuracy accuracy) { return accuracy.coverage(tenth); });
  for (std::size_t i = 0; i < kNumLengthStages; ++i) {
    const auto stage = static_cast<LengthStage>(i);
    const ForecastStageMetrics& gauges = metrics.forecast_stages.at(i);
    set_mean_loss(gauges.loss, [&](Accuracy accuracy) { return accuracy.mean_loss(stage); });
    set_mean(gauges.log_error, [&](Accuracy accuracy) { return accuracy.mean_log_error(stage); });
    set_mean(gauges.tau, [&](Accuracy accuracy) { return accuracy.tau(stage); });
  }
  report_states();
}

void PredictorState::report_states() const {
  const Metrics& metrics = environment_->metrics;
  std::uint64_t num_states = 0, num_looks_learnt = 0, num_vectors = 0;
  JudgedLooks looks;
  for (const LengthPredictor& predictor : predictors_) {
    num_vectors += predictor.num_vectors_learnt();
    num_states += predictor.num_states_learnt();
    num_looks_learnt += predictor.num_looks_learnt();
    looks += predictor.accuracy().looks();
  }
  metrics.vectors_learnt.set(static_cast<double>(num_vectors));
  metrics.states_learnt.set(static_cast<double>(num_states));
  metrics.looks_learnt.set(static_cast<double>(num_looks_learnt));
  if (looks.num == 0) return;
  const double num = looks.num;
  metrics.looks_coverage.set(looks.num_fitted / num);
  metrics.looks_loss.set(looks.loss / num);
  metrics.looks_standing_loss.set(looks.standing_loss / num);
}

}  // namespace troupe
