// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/models_world.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/engine/core_world.hpp"
#include "tests/engine/small_cells.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kLongestInput = 24;

std::vector<ModelCoreOptions> models_of(const ModelsWorld::Settings& settings) {
  CoreOptions options = CoreWorld::small_options();
  options.serving.itl_factor = settings.itl_factor;
  options.serving.max_in_flight = settings.max_in_flight;
  std::vector<ModelCoreOptions> models(settings.num_generators,
                                       {.kind = ModelKind::kGenerative, .core = options});
  for (std::uint32_t i = 0; i < settings.num_encoders; ++i)
    models.push_back({.kind = ModelKind::kEmbedding, .core = options});
  options.unfolding = UnfoldingRule{};
  for (std::uint32_t i = 0; i < settings.num_chains; ++i)
    models.push_back({.kind = ModelKind::kGenerative, .core = options});
  return models;
}

}  // namespace

ModelsWorld::ModelsWorld(Settings settings) : settings_(settings), cores_(models_of(settings)) {
  for (ModelIndex model = 0; model < cores_.num_models(); ++model) served_[model] = {};
}

void ModelsWorld::hand(const Event& event) {
  Commands commands;
  cores_.on(event, ModelCores::TimePoint(now), commands);
  for (const Command& command : commands) {
    if (const auto* output = std::get_if<Emit>(&command)) take(*output);
    if (const auto* batch = std::get_if<SubmitBatch>(&command)) in_flight_[batch->worker].push_back(*batch);
    if (const auto* done = std::get_if<Flushed>(&command)) flushed.push_back(done->number);
    if (const auto* found = std::get_if<WorkerStalled>(&command)) stalled.push_back(*found);
  }
}

void ModelsWorld::take(const Emit& command) {
  Answer& answer = answers_[command.sequence];
  if (const auto* stopped = std::get_if<SequenceStopped>(&command.output))
    answer.stopped.push_back(stopped->reason);
  if (const auto* token = std::get_if<NewToken>(&command.output)) {
    if (token->token >= 0) answer.tokens.push_back(token->token);
    answer.num_ends += token->end != SequenceEnd::kNotYet ? 1 : 0;
  }
  if (const auto* encoded = std::get_if<Encoded>(&command.output)) {
    answer.vector = encoded->vector;
    answer.num_ends += 1;
  }
  if (const auto* failed = std::get_if<SequenceFailed>(&command.output)) {
    answer.failed = *failed;
    answer.num_ends += 1;
  }
}

void ModelsWorld::start_worker(WorkerId worker) {
  epochs_[worker] = ++last_epoch_;
  last_done_[worker] = now;
  const DeviceDescription encoder{.name = "encoder",
                                  .page_size = CoreWorld::kPageSize,
                                  .num_slots = 4,
                                  .max_batch_tokens = 32,
                                  .context_length = kLongestInput,
                                  .vocabulary_size = 1000,
                                  .cells = {{.name = "encoder_pass",
                                             .state = StateKind::kNone,
                                             .result = ResultKind::kVector,
                                             .vector_size = 2}}};
  const DeviceDescription generator{.name = "test",
                                    .page_size = CoreWorld::kPageSize,
                                    .num_pages = settings_.num_pages,
                                    .num_slots = 4,
                                    .max_batch_tokens = settings_.max_batch_tokens,
                                    .context_length = settings_.context_length,
                                    .vocabulary_size = 1000};
  std::vector<ModelDevice> further(settings_.num_generators - 1, {.description = generator});
  further.insert(further.end(), settings_.num_encoders, {.description = encoder});
  const DeviceDescription chain{.name = "chain",
                                .num_slots = 8,
                                .max_batch_tokens = 8,
                                .context_length = 64,
                                .vocabulary_size = 1000,
                                .cells = small_cells(UnfoldingRule{})};
  further.insert(further.end(), settings_.num_chains, {.description = chain});
  hand(WorkerReady{.worker = worker,
                   .epoch = last_epoch_,
                   .description = generator,
                   .further_models = std::move(further)});
}

void ModelsWorld::lose_worker(WorkerId worker, Loss loss) {
  WorkerLost lost{.worker = worker, .epoch = epochs_[worker]};
  if (loss != Loss::kUnknown) lost.model = in_flight_[worker].front().model;
  if (loss == Loss::kOfBatch) lost.batch_id = in_flight_[worker].front().batch_id;
  in_flight_[worker].clear();
  hand(lost);
}

SequenceId ModelsWorld::generate(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                                 const std::string& flow, ModelIndex model) {
  return admit(model, std::move(prompt), max_tokens, flow);
}

SequenceId ModelsWorld::encode(std::vector<std::int32_t> input, const std::string& flow, ModelIndex model) {
  return admit(model, std::move(input), std::nullopt, flow);
}

SequenceId ModelsWorld::admit(ModelIndex model, std::vector<std::int32_t> tokens,
                              std::optional<std::uint32_t> max_tokens, const std::string& flow) {
  auto ticket = std::make_shared<AdmissionTicket>();
  ticket->sequence = ++last_sequence_;
  ticket->model = model;
  ticket->prompt = std::move(tokens);
  ticket->max_tokens = max_tokens;
  ticket->flow = flow;
  Answer& answer = answers_[last_sequence_];
  answer.model = model;
  answer.input_sum = std::accumulate(ticket->prompt.begin(), ticket->prompt.end(), 0);
  hand(Admit{.ticket = std::move(ticket)});
  return last_sequence_;
}

std::chrono::nanoseconds ModelsWorld::time_of(const SubmitBatch& batch) const {
  const std::uint32_t num_tokens = batch.batch->num_tokens();
  if (is_chain(batch.model)) return settings_.cell_time;
  if (batch.model >= settings_.num_generators)
    return settings_.encode_time + settings_.encode_time_a_token * num_tokens;
  const auto& slices = batch.batch->slices;
  const auto num_drawn =
      static_cast<std::uint32_t>(std::count_if(slices.begin(), slices.end(), [](const SequenceSlice& slice) {
        return slice.sample && slice.num_tokens == 1;
      }));
  return settings_.decode_time + settings_.prompt_time_a_token * (num_tokens - num_drawn);
}

void ModelsWorld::finish_batch(WorkerId worker) {
  const SubmitBatch batch = std::move(in_flight_[worker].front());
  in_flight_[worker].pop_front();
  const auto time = time_of(batch);
  now = std::max(now, last_done_[worker] + time);
  last_done_[worker] = now;
  served_[batch.model] += time;
  BatchDone done{.worker = worker, .epoch = batch.epoch, .result = {}, .model = batch.model};
  done.result.batch_id = batch.batch_id;
  std::size_t first_token = 0;
  for (const SequenceSlice& slice : batch.batch->slices) {
    if (batch.model < settings_.num_generators || is_chain(batch.model)) {
      const auto num_tokens = static_cast<std::int32_t>(answers_[slice.sequence].tokens.size());
      done.result.tokens.push_back(slice.sample ? 100 + num_tokens : -1);
      continue;
    }
    const auto begin = batch.batch->token_ids.begin() + static_cast<std::ptrdiff_t>(first_token);
    first_token += slice.num_tokens;
    const auto sum = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(slice.num_tokens), 0);
    done.result.vectors.insert(done.result.vectors.end(),
                               {static_cast<float>(sum), static_cast<float>(slice.num_tokens)});
  }
  hand(done);
}

void ModelsWorld::finish_batch_of(WorkerId worker, ModelIndex model) {
  auto& batches = in_flight_[worker];
  const auto found = std::find_if(batches.begin(), batches.end(),
                                  [model](const SubmitBatch& batch) { return batch.model == model; });
  if (found == batches.end()) return;
  std::rotate(batches.begin(), found, found + 1);
  finish_batch(worker);
}

bool ModelsWorld::finish_any() {
  std::optional<WorkerId> first;
  std::chrono::nanoseconds end{};
  for (const auto& [worker, batches] : in_flight_) {
    if (batches.empty()) continue;
    const auto ends = last_done_[worker] + time_of(batches.front());
    if (!first || ends < end) {
      first = worker;
      end = ends;
    }
  }
  if (first) finish_batch(*first);
  return first.has_value();
}

void ModelsWorld::finish_all() {
  while (finish_any()) {
  }
}

}  // namespace troupe
