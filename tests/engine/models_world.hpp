// SPDX-License-Identifier: Apache-2.0
// Cores of several models over workers that finish a batch when the test says so: the
// oldest of all models first, as devices do that share their worker's cores. The first models
// generate, the next ones encode (an input's vector is its tokens' sum), the last are chains of cells.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_cores.hpp"

namespace troupe {

class ModelsWorld {
 public:
  struct Answer {
    ModelIndex model = 0;
    std::int32_t input_sum = 0;
    std::vector<std::int32_t> tokens;
    std::vector<float> vector;
    std::vector<StopReason> stopped;
    std::optional<SequenceFailed> failed;
    int num_ends = 0;
  };

  struct Settings {
    std::uint32_t num_generators = 1, num_encoders = 1;
    std::chrono::nanoseconds decode_time{100}, encode_time_a_token{10}, prompt_time_a_token{0};
    std::uint32_t num_pages = 16, max_batch_tokens = 32, context_length = 60;  // of those that generate
    double itl_factor = 0;
    std::uint32_t max_in_flight = 2;
    std::chrono::nanoseconds encode_time{0};  // of a batch, besides its tokens
    std::uint32_t num_chains = 0;
    std::chrono::nanoseconds cell_time{100};  // of a batch
  };

  ModelsWorld() : ModelsWorld(Settings{}) {}
  explicit ModelsWorld(Settings settings);

  void hand(const Event& event);
  void start_worker(WorkerId worker);
  // How much is known of its end: nothing, whose device it was, or which batch did it.
  // That is the oldest batch in flight, or its model's device.
  enum class Loss : std::uint8_t { kUnknown, kOfDevice, kOfBatch };
  void lose_worker(WorkerId worker, Loss loss = Loss::kUnknown);
  SequenceId generate(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                      const std::string& flow = "a", ModelIndex model = 0);
  SequenceId encode(std::vector<std::int32_t> input, const std::string& flow = "a", ModelIndex model = 1);
  void finish_batch(WorkerId worker);
  // The oldest of this model, though others are older.
  void finish_batch_of(WorkerId worker, ModelIndex model);
  bool finish_any();  // the batch that is done first; false: none is in flight
  void finish_all();

  const ModelCores& cores() const { return cores_; }
  const Answer& answer(SequenceId id) { return answers_[id]; }
  const std::map<SequenceId, Answer>& answers() const { return answers_; }
  const std::deque<SubmitBatch>& in_flight(WorkerId worker) { return in_flight_[worker]; }
  // Device time by model, over all workers.
  std::chrono::nanoseconds served(ModelIndex model) const { return served_.at(model); }
  std::vector<std::uint64_t> flushed;
  std::vector<WorkerStalled> stalled;
  std::chrono::nanoseconds now{1};

 private:
  SequenceId admit(ModelIndex model, std::vector<std::int32_t> tokens,
                   std::optional<std::uint32_t> max_tokens, const std::string& flow);
  void take(const Emit& command);
  std::chrono::nanoseconds time_of(const SubmitBatch& batch) const;
  bool is_chain(ModelIndex model) const { return model >= settings_.num_generators + settings_.num_encoders; }

  Settings settings_;
  ModelCores cores_;
  std::map<SequenceId, Answer> answers_;
  std::map<WorkerId, std::deque<SubmitBatch>> in_flight_;
  std::map<WorkerId, std::chrono::nanoseconds> last_done_;
  std::map<WorkerId, Epoch> epochs_;
  std::map<ModelIndex, std::chrono::nanoseconds> served_;
  Epoch last_epoch_ = 0;
  SequenceId last_sequence_ = 0;
};

}  // namespace troupe
