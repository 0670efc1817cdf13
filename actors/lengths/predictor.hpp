// SPDX-License-Identifier: Apache-2.0
// Foresees the lengths of answers for the scheduler, when they arrive and at the end of their
// prefill, and learns from those that have ended: policy/lengths/length_predictor.hpp for each model. Its
// knowledge is kept in the state directory. Nothing waits for it, and its end ends nothing else.
//
// Where the engine has a model for that, it has the prompts of requests that wait read
// (actors/lengths/prompt_reader.hpp), each once, a few at a time; those beyond are read when they are asked
// about again.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "policy/lengths/length_predictor.hpp"

namespace troupe {

class PredictorState {
 public:
  using Self = PredictorActor::stateful_pointer<PredictorState>;
  static inline const char* name = "predictor";
  // Answers from one save to the next, and the last one at the end.
  static constexpr std::uint64_t kSavedEvery = 256;
  static constexpr std::size_t kMostReading = 8;        // prompts at once
  static constexpr std::size_t kMostReadingOfFlow = 6;  // so that one flow's flood leaves others a place

  void initialize(Self self, Environment environment);
  ~PredictorState();

  LengthForecast foresee(const ForecastLength& message);
  void learn(const LearnLength& message);
  void have_read(const ForecastLength& message, const SchedulerActor& scheduler);
  void take_vector(const PromptRead& message);

  const LengthPredictor& of(ModelIndex model) const { return predictors_[model]; }

 private:
  void load(ModelIndex model);
  void save(ModelIndex model);
  void report() const;
  void report_states() const;
  bool has_place(const std::string& flow) const;
  std::optional<std::uint64_t> encoder_fingerprint() const;
  void note_time_since(std::chrono::steady_clock::time_point begun) const;

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  std::vector<LengthPredictor> predictors_;    // by ModelIndex
  std::vector<std::uint64_t> num_saved_;       // so, too: answers learnt when it was saved last
  SchedulerActor scheduler_;                   // null: nothing was to be read yet
  PromptReaderActor reader_;                   // so, too
  std::map<SequenceId, std::string> reading_;  // prompts that are being read, and their flows
  std::set<SequenceId> asked_;  // their prompts were given to the reader, and are not again; until they end
};

PredictorActor::behavior_type make_predictor(PredictorState::Self self, Environment environment);

}  // namespace troupe
