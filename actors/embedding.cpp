// SPDX-License-Identifier: Apache-2.0
#include "actors/embedding.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/request/answer/shared_vectors.hpp"
#include "actors/request/prompt/prompt_encoding.hpp"
#include "actors/request/trace/request_trace.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// Encoding this much text takes a few hundred microseconds.
constexpr std::size_t kShortBytes = 4096;

// A node of a tree as a cell of a graph, and its vector as the worker gives it and in the answer.
constexpr std::size_t kNodeBytes = 64;
constexpr std::size_t kVectorCopies = 2;

std::size_t bytes_of_texts(const EmbeddingRequest& request) {
  std::size_t bytes = 0;
  for (const auto& input : request.inputs)
    if (const auto* text = std::get_if<TextPrompt>(&input)) bytes += text_bytes(*text);
  return bytes;
}

// The request without its inputs, for its trace and its line in the log.
std::shared_ptr<const GenerationRequest> request_without_inputs(const EmbeddingRequest& request) {
  auto about = std::make_shared<GenerationRequest>();
  about->id = request.id;
  about->tenant = request.tenant;
  about->flow = request.flow;
  about->model = request.model;
  about->wants_vector = true;
  about->truncates = request.truncates;
  about->origin = request.origin;
  return about;
}

}  // namespace

RequestActor::behavior_type make_embedding(EmbeddingState::Self self, Environment environment,
                                           EmbeddingPeers peers, EmbeddingStart start) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(peers), std::move(start));
  return {
      [self](const BeginRequest&) { self->state.begin_request(); },
      [self](const CancelRequest&) { self->state.cancel(); },
      [](const ResumeRequest&) {},
      [](const ConversationRead&) {},
      [self](const PromptEncoded& prompt) { self->state.take_prompt(prompt); },
      [self](const Admitted&) { self->state.take_admission(); },
      [self](const SequenceStarted& message) { self->state.take_started(message); },
      [self](const SequenceStopped& message) { self->state.take_stopped(message); },
      [](const ReservationChanged&) {},
      [](const NewToken&) {},
      [](const ScorePrompt&) {},
      [self](const Encoded& encoded) { self->state.take_vector(encoded); },
      [](const ResponseSaved&) {},
      [](const RequestJournaled&) {},
      [](const JournalEnded&) {},
      [self](const RequestFailed& failed) { self->state.fail(failed.error, failed.sequence); },
  };
}

void EmbeddingState::initialize(Self self, Environment environment, EmbeddingPeers peers,
                                EmbeddingStart start) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  peers_ = std::move(peers);
  start_ = std::move(start);
  leases_ = std::make_shared<std::vector<TextLease>>();
  trace_.emplace(request_without_inputs(*start_.request), environment_->tracer, start_.arrived);
}

EmbeddingState::~EmbeddingState() {
  if (is_abandoned_) is_abandoned_->store(true);
  if (!trace_ || trace_->has_ended()) return;
  try {
    end_trace({.reason = FinishReason::kError, .error = ApiError{}, .usage = usage_});
  } catch (const std::exception& error) {
    log(LogLevel::kError, "a request's end was not recorded", {{"reason", error.what()}});
  }
}

void EmbeddingState::begin_request() {
  if (start_.refusal) return fail(*start_.refusal, 0);
  if (num_inputs() == 0)
    return fail({.kind = ApiErrorKind::kInvalidRequest,
                 .message = "There is no input; at least one is needed.",
                 .field = "input"},
                0);
  const std::size_t num_bytes = bytes_of_texts(*start_.request);
  const std::size_t num_vector_bytes = num_inputs() * model().vector_size * sizeof(float);
  is_short_ = num_bytes <= kShortBytes;
  if (!is_short_) is_abandoned_ = std::make_shared<std::atomic<bool>>(false);
  if (num_bytes + num_vector_bytes > kShortBytes) {
    auto lease =
        TextQuota::take(environment_->prompt_text, start_.request->flow, num_bytes + num_vector_bytes);
    if (!lease)
      return fail({.kind = ApiErrorKind::kOverloaded,
                   .message = "The server holds as many long inputs and vectors as it may; try again later."},
                  0);
    leases_->push_back(*std::move(lease));
  }
  trace_->begin_waiting(self_->clock().now());
  feed();
}

// The next inputs, as many as there is room for; the end, if all have their vectors.
void EmbeddingState::feed() {
  const std::size_t at_once = has_begun_ ? kInputsAtOnce : 1;
  while (!start_.stream->is_over() && next_ < num_inputs() &&
         encoding_.size() + with_scheduler_.size() < at_once)
    encode(next_++);
  if (!start_.stream->is_over() && num_done_ == num_inputs()) finish();
}

void EmbeddingState::encode(std::size_t input) {
  const SequenceId sequence = start_.first_id + input;
  auto request = std::make_shared<GenerationRequest>(trace_->request());
  std::visit([&](const auto& prompt) { request->prompt = prompt; }, start_.request->inputs[input]);
  if (!is_short_) {
    encoding_.insert(sequence);
    const std::size_t num_bytes = prompt_text_bytes(*request);
    self_->send(peers_.encoder, EncodePrompt{.sequence = sequence,
                                             .num_bytes = num_bytes,
                                             .request = std::move(request),
                                             .conversation = nullptr,
                                             .is_abandoned = is_abandoned_,
                                             .deadline = self_->clock().now() +
                                                         environment_->options.serving.max_queue_time});
    return;
  }
  const PromptTerms terms{.limits = environment_->board->serving_limits(start_.request->model),
                          .is_interrupted = {}};
  auto encoded = encode_prompt(model(), *request, nullptr, terms);
  if (const auto* error = std::get_if<ApiError>(&encoded)) return fail(*error, sequence);
  admit(sequence, std::move(std::get<EncodedPrompt>(encoded)));
}

void EmbeddingState::take_prompt(const PromptEncoded& encoded) {
  if (start_.stream->is_over()) return;
  encoding_.erase(encoded.sequence);
  if (!encoded.prompt) return fail(encoded.error, encoded.sequence);
  admit(encoded.sequence, *encoded.prompt);
  feed();
}

void EmbeddingState::admit(SequenceId sequence, EncodedPrompt prompt) {
  auto ticket = std::make_shared<AdmissionTicket>();
  ticket->sequence = sequence;
  ticket->model = start_.request->model;
  const std::size_t num_charged = prompt.graph ? prompt.node_results.size() : prompt.tokens.size();
  if (prompt.graph && !lease_nodes(num_charged, sequence)) return;
  if (const auto refusal = start_.stream->charge_prompt(num_charged, 0, self_->clock().now()))
    return fail(*refusal, sequence);
  usage_.prompt_tokens += static_cast<std::uint32_t>(num_charged);
  if (environment_->vectors && !prompt.graph) {
    VectorInput input{
        .model = ticket->model, .second_text = prompt.second_text, .tokens = std::move(prompt.tokens)};
    const auto kept = environment_->vectors->find(start_.request->tenant, input, self_->clock().now());
    if (kept) return keep_vector(sequence, *kept);
    prompt.tokens = input.tokens;
    asked_.emplace(sequence, std::move(input));
  }
  ticket->prompt = std::move(prompt.tokens);
  ticket->graph = std::move(prompt.graph);
  if (ticket->graph)
    trees_.emplace(
        sequence,
        TreeInput{.node_results = std::move(prompt.node_results), .root = prompt.root, .vectors = {}});
  ticket->second_text = prompt.second_text;
  ticket->flow = start_.request->flow;
  ticket->has_begun = has_begun_;
  if (environment_->tracer && trace_->context().is_sampled) ticket->trace = trace_->context();
  with_scheduler_.insert(sequence);
  self_->send(peers_.scheduler, Admit{std::move(ticket)});
}

// Bounds what the nodes of trees take until the client has read their answer: a few bytes of a
// tree are a node, and each node has a vector. False: it is too much, and the request has failed.
bool EmbeddingState::lease_nodes(std::size_t num_nodes, SequenceId sequence) {
  num_nodes_ += num_nodes;
  if (num_nodes_ > kMaxNodes) {
    fail({.kind = ApiErrorKind::kInvalidRequest,
          .message = "The trees of one request have at most " + std::to_string(kMaxNodes) +
                     " nodes; with this one they have " + std::to_string(num_nodes_) + ".",
          .field = "input"},
         sequence);
    return false;
  }
  const std::size_t num_bytes =
      num_nodes * (kNodeBytes + kVectorCopies * model().vector_size * sizeof(float));
  if (num_bytes <= kShortBytes) return true;
  auto lease = TextQuota::take(environment_->prompt_text, start_.request->flow, num_bytes);
  if (!lease) {
    fail({.kind = ApiErrorKind::kOverloaded,
          .message = "The server holds as many nodes of trees as it may; try again later."},
         sequence);
    return false;
  }
  leases_->push_back(*std::move(lease));
  return true;
}

void EmbeddingState::take_admission() {
  if (!start_.stream->is_over()) start_.stream->mark_admitted();
}

// The trace records the first input's turn only: the turns of the others overlap with it.
void EmbeddingState::take_started(const SequenceStarted& message) {
  if (std::exchange(has_begun_, true)) return;
  start_.stream->keep_charges();
  trace_->mark_accepted();
  trace_->take_started(message);
  feed();
}

// Its inputs are encoded again elsewhere.
void EmbeddingState::take_stopped(const SequenceStopped&) {}

void EmbeddingState::take_vector(const Encoded& encoded) {
  if (start_.stream->is_over() || with_scheduler_.erase(encoded.sequence) == 0) return;
  if (const auto tree = trees_.find(encoded.sequence); tree != trees_.end()) {
    take_nodes(encoded, tree->second);
    num_done_ += 1;
  } else {
    keep_vector(encoded.sequence, encoded.vector);
  }
  if (auto asked = asked_.extract(encoded.sequence))
    environment_->vectors->put(start_.request->tenant, std::move(asked.mapped()), encoded.vector,
                               self_->clock().now());
  feed();
}

// An input's vector, from wherever.
void EmbeddingState::keep_vector(SequenceId sequence, const std::vector<float>& vector) {
  size_ = vector.size();
  vectors_.resize(num_inputs() * size_);
  const auto input = static_cast<std::size_t>(sequence - start_.first_id);
  std::copy(vector.begin(), vector.end(), vectors_.begin() + static_cast<std::ptrdiff_t>(input * size_));
  num_done_ += 1;
}

// In the order of the tree's nodes.
void EmbeddingState::take_nodes(const Encoded& encoded, TreeInput& tree) {
  size_ = model().vector_size;
  for (const std::uint32_t result : tree.node_results) {
    const auto first = encoded.vector.begin() + static_cast<std::ptrdiff_t>(result * size_);
    tree.vectors.insert(tree.vectors.end(), first, first + static_cast<std::ptrdiff_t>(size_));
  }
}

void EmbeddingState::finish() {
  std::vector<Embedded::Tree> trees;
  for (const auto& [sequence, tree] : trees_) {
    trees.push_back({.num_nodes = static_cast<std::uint32_t>(tree.node_results.size()), .root = tree.root});
    vectors_.insert(vectors_.end(), tree.vectors.begin(), tree.vectors.end());
  }
  if (!has_begun_) {  // it never had to queue
    start_.stream->keep_charges();
    trace_->mark_accepted();
  }
  const auto now = self_->clock().now();
  const Metrics& metrics = environment_->metrics;
  metrics.embedding_requests.add();
  metrics.embedding_time.observe(std::chrono::duration<double>(now - start_.arrived).count());
  end_trace({.reason = FinishReason::kStop, .error = {}, .usage = usage_});
  start_.stream->embed({.vectors = std::move(vectors_),
                        .size = static_cast<std::uint32_t>(size_),
                        .trees = std::move(trees),
                        .prompt_tokens = usage_.prompt_tokens,
                        .held = std::move(leases_)});
  leave();
}

void EmbeddingState::cancel() {
  if (start_.stream->is_over()) return;
  end_trace({.reason = FinishReason::kCancelled, .error = {}, .usage = usage_});
  start_.stream->finish({.reason = FinishReason::kCancelled,
                         .stop_string = {},
                         .stop_token = {},
                         .usage = usage_,
                         .timings = trace_->timings()});
  leave();
}

// sequence: of the input that it is about; 0: of all.
void EmbeddingState::fail(ApiError error, SequenceId sequence) {
  if (start_.stream->is_over()) return;
  if (error.field && error.field != "model" && sequence >= start_.first_id)
    error.field = name_of_input(*start_.request, static_cast<std::size_t>(sequence - start_.first_id));
  end_trace({.reason = FinishReason::kError, .error = error, .usage = usage_});
  start_.stream->fail(std::move(error));
  leave();
}

// Before the client is told: whatever happens then, nothing of it is lost.
void EmbeddingState::end_trace(RequestOutcome outcome) {
  trace_->end(self_->clock().now(), std::move(outcome));
  record_request(*trace_, model().name);
  log_request(*trace_, environment_->options.logs_requests);
}

void EmbeddingState::leave() {
  if (is_abandoned_) is_abandoned_->store(true);
  for (const SequenceId sequence : std::exchange(encoding_, {}))
    send_urgent(peers_.encoder, DropPrompt{sequence});
  for (const SequenceId sequence : std::exchange(with_scheduler_, {}))
    send_urgent(peers_.scheduler, StopSequence{sequence});
  self_->quit();
}

}  // namespace troupe
