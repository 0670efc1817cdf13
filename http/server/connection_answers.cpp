// SPDX-License-Identifier: Apache-2.0
// A connection's answers: replies at once, generations as their events come.
#include "http/server/connection.hpp"

#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "http/api/answers/limit_fields.hpp"
#include "http/api/answers/message_event_writer.hpp"
#include "http/api/answers/message_json.hpp"
#include "http/api/answers/ollama/ollama_writer.hpp"
#include "http/api/answers/response_event_writer.hpp"
#include "http/api/answers/response_object.hpp"
#include "http/api/answers/sse_writer.hpp"
#include "http/api/answers/token_json.hpp"
#include "http/routing/refusal_span.hpp"
#include "http/server/connection_counter.hpp"
#include "http/server/shard.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {
namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// GenerationRequest::num_score_copies: each choice of completions has its prompt's, and each answer that is
// drawn has those of its echo.
std::uint32_t num_score_copies(const ApiRequest& request) {
  if (request.generation.scores_echo()) return request.num_candidates;
  return request.shape == ResponseShape::kCompletion ? request.num_choices : 1;
}

// One request for each prompt, taken out of the client's.
std::vector<GenerationRequest> take_requests(ApiRequest& request) {
  std::vector<GenerationRequest> requests;
  request.generation.num_score_copies = num_score_copies(request);
  request.generation.scores_of_answer = std::make_shared<ScoreTally>();
  requests.push_back(std::exchange(request.generation, {}));
  requests.front().num_choices = request.num_choices;
  requests.front().num_drawn_answers = request.num_candidates;
  for (auto& prompt : std::exchange(request.more_prompts, {})) {
    GenerationRequest other = requests.front();
    std::visit([&](auto& own) { other.prompt = std::move(own); }, prompt);
    other.id += "-p" + std::to_string(requests.size());
    requests.push_back(std::move(other));
  }
  return requests;
}

// Spans of a request's other prompts are below its own.
RequestOrigin branch_of(const RequestOrigin& origin) {
  RequestOrigin branch = origin;
  branch.parent = origin.trace.span;
  branch.trace.span = draw_span_id();
  return branch;
}

bool is_in_store(const DetachedAnswer& answer) {
  const auto look = answer.look();
  return look.finished && look.finished->is_stored;
}

}  // namespace

void Connection::begin_exchange(HttpRequest request) {
  ++num_requests_;
  num_read_ahead_ = parser_.num_buffered();
  const auto access = service_.access();
  open_exchange(request, *access);
  has_request_begun_ = has_body_begun_ = false;
  if (num_requests_ >= limits_.max_requests_per_connection || service_.is_draining() || input_ended_ ||
      door_ == Door::kReserve) {
    exchange_->context.keep_alive = false;
  }
  auto handled = service_.handle(request, exchange_->route, door_, *access);
  if (auto* reply = std::get_if<Reply>(&handled)) return answer(std::move(*reply));
  if (auto* stored = std::get_if<StoredRequest>(&handled)) return look_up(std::move(*stored));
  if (auto* embedding = std::get_if<ApiEmbeddingRequest>(&handled))
    return start_embedding(std::move(*embedding));
  if (auto* tokens = std::get_if<ApiTokenRequest>(&handled)) return start_tokens(std::move(*tokens));
  start_generation(std::move(std::get<ApiRequest>(handled)));
}

void Connection::open_exchange(const HttpRequest& request, const Service::Access& access) {
  const RouteMatch route = match_route(request.target, entrance_);
  RequestOrigin origin = service_.origin_of(request, route, request_since_);
  ResponseContext context = service_.context_for(request, origin, access);
  exchange_ = Exchange{.route = route,
                       .method = origin.method,
                       .origin = std::move(origin),
                       .context = std::move(context),
                       .started = request_since_};
}

void Connection::answer(Reply reply) {
  if (reply.error) restyle_error(reply);
  const bool is_chunked = reply.long_body && !reply.is_counted;
  if (is_chunked && exchange_->context.is_http_1_0)
    exchange_->context.keep_alive = false;  // ends with the body
  tell_limits();
  append_reply(out_.tail(), exchange_->context, reply);
  if (reply.long_body && !exchange_->context.is_head)
    out_.add({.answer = std::move(*reply.long_body),
              .framing = is_chunked ? framing() : EventFraming::kPlain,
              .is_last = is_chunked});
  exchange_->status = reply.status;
  exchange_->is_answered = true;
  Metrics& metrics = service_.metrics();
  (reply.status < 400 ? metrics.http_2xx : reply.status < 500 ? metrics.http_4xx : metrics.http_5xx).add();
  write_out();
}

// In the shape of the API that was asked; it comes in OpenAI's.
void Connection::restyle_error(Reply& reply) const {
  switch (style_of(exchange_->route, entrance_)) {
    case ApiStyle::kOpenAi: return;
    case ApiStyle::kAnthropic:
      reply.body = message_error_json(*reply.error, exchange_->context.request_id);
      return;
    case ApiStyle::kOllama: reply.body = ollama_error_json(*reply.error);
  }
}

void Connection::answer_error(HttpError error) {
  if (phase_ == Phase::kStreaming) {
    generation_->writer->error(out_.tail(), error);
    queue_long_event();
    exchange_->context.keep_alive = false;
    exchange_->is_answered = true;
    return end_generation();
  }
  if (!exchange_) open_exchange(parser_.request(), *service_.access());  // it could not be read to its end
  if (error.close) exchange_->context.keep_alive = false;
  if (generation_) end_generation();
  answer(error_reply(error));
}

// Counts the answer among those under way, unless the server is draining.
bool Connection::begin_inference() {
  shard_.answers().add();
  exchange_->is_generation = true;
  // Looked at after being counted: a drain waits for this one or refuses it.
  if (!service_.is_draining()) return true;
  service_.metrics().refused_draining.add();
  answer_error(http_error(503, "the server is shutting down"));
  return false;
}

void Connection::expect_answer(Delivery delivery, std::size_t num_choices) {
  const auto make_stream = [&](std::uint32_t choice) {
    return std::make_shared<ClientStream>(shard_.outbox(), this, delivery, service_.metrics().sse_backlog,
                                          choice);
  };
  generation_ = std::make_unique<Generation>(
      Generation{.choices = Choices(service_.engine(), make_stream, num_choices)});
  phase_ = Phase::kGenerating;
}

void Connection::start_generation(ApiRequest request) {
  if (request.is_resumable || request.generation.background) return start_detached(std::move(request));
  if (!begin_inference()) return;
  const std::size_t num_choices = request.num_candidates * (1 + request.more_prompts.size());
  // With several the io thread hears when one has begun, which others wait for.
  expect_answer(request.stream || num_choices > 1 ? Delivery::kEvents : Delivery::kWhole, num_choices);
  std::vector<GenerationRequest> requests = take_requests(request);
  GenerationRequest& first = requests.front();
  exchange_->account = service_.account_of(first.tenant);
  generation_->response_id = first.id;
  generation_->model = first.model;
  generation_->turn = first.turn;
  generation_->created = generation_->turn ? generation_->turn->created : unix_seconds();
  generation_->request = std::move(request);
  for (GenerationRequest& each : requests) complete(each.flow, each.origin, generation_->request.stream);
  for (std::size_t i = 1; i < requests.size(); ++i) requests[i].origin = branch_of(first.origin);
  generation_->choices.start(std::move(requests));
}

// Its drain waits for it by itself, or leaves it to the next process.
void Connection::start_detached(ApiRequest request) {
  const bool is_background = request.generation.background != nullptr;
  if (!begin_inference()) return;
  GenerationRequest generation = std::move(take_requests(request).front());
  exchange_->account = service_.account_of(generation.tenant);
  complete(generation.flow, generation.origin, request.stream);
  const bool is_stream = request.stream;
  DetachedAnswer::About about{.id = generation.id,
                              .tenant = generation.tenant,
                              .flow = generation.flow,
                              .model = generation.model,
                              .created = generation.turn ? generation.turn->created : unix_seconds(),
                              .turn = generation.turn,
                              .is_background = is_background};
  about.request = std::move(request);
  const auto answer = shard_.detached().start(std::move(about), std::move(generation));
  shard_.answers().remove();
  exchange_->is_generation = false;
  if (!answer)
    return answer_error(to_http_error({.kind = ApiErrorKind::kOverloaded,
                                       .message = "The server keeps as many answers as it may that go on "
                                                  "without their clients; try again later."}));
  follow(answer, is_stream, -1);
}

// Without a stream: until it is sure that the answer will come.
void Connection::follow(const std::shared_ptr<DetachedAnswer>& answer, bool is_stream, std::int64_t after) {
  const DetachedAnswer::About& about = answer->about();
  auto stream = std::make_shared<ClientStream>(shard_.outbox(), this, Delivery::kEvents,
                                               service_.metrics().sse_backlog);
  phase_ = Phase::kGenerating;
  generation_ = std::make_unique<Generation>(
      Generation{.choices = Choices(service_.engine(), std::move(stream), answer),
                 .model = about.model,
                 .response_id = about.id,
                 .created = about.created,
                 .request = about.request,
                 .turn = about.turn,
                 .after = after});
  generation_->request.stream = is_stream;
}

// False: the store is to be asked.
bool Connection::answer_detached(const StoredRequest& request) {
  const auto& query = request.query;
  const auto found = shard_.detached().find(query.tenant, query.response);
  using Answer = StoredRequest::Answer;
  if (!found) {
    if (request.answer != Answer::kEvents) return false;
    answer_error(to_http_error(
        {.kind = ApiErrorKind::kResponseNotFound,
         .message = "No events of '" + query.response +
                    "' are kept: they are, for some minutes, of "
                    "responses with background and of streams with stream_options.resumable."}));
    return true;
  }
  if (request.answer == Answer::kEvents) {
    follow(found, true, request.after);
    return true;
  }
  const bool is_of_chat = !found->about().turn;
  if (is_of_chat || request.answer == Answer::kInputItems) return false;
  if (request.answer == Answer::kResponse) {
    if (is_in_store(*found)) return false;
    answer(detached_reply(*found));
    return true;
  }
  // Its end tells what has become of it: it may have been on its way to the store.
  found->cancel();
  follow(found, false, -1);
  stored_ = request;
  return true;
}

void Connection::answer_ended() {
  StoredRequest request = *std::exchange(stored_, std::nullopt);
  const auto ended = shard_.detached().find(request.query.tenant, request.query.response);
  end_generation();
  if (request.answer == StoredRequest::Answer::kDeleted) {
    service_.engine().end_journal(
        request.query.response);  // also of one that failed and is to be begun again
    shard_.detached().forget(request.query.response);
    request.may_be_missing = true;
    return ask_store(std::move(request));
  }
  if (!ended || is_in_store(*ended)) return ask_store(std::move(request));
  answer(detached_reply(*ended));
}

void Connection::start_embedding(ApiEmbeddingRequest request) {
  if (!begin_inference()) return;
  expect_answer(Delivery::kWhole);
  EmbeddingRequest embedding = std::exchange(request.embedding, {});
  generation_->model = embedding.model;
  exchange_->account = service_.account_of(embedding.tenant);
  embedding_ = std::move(request);
  complete(embedding.flow, embedding.origin, false);
  generation_->choices.start(
      [&](auto stream) { return service_.engine().embed(std::move(embedding), std::move(stream)); });
}

void Connection::start_tokens(ApiTokenRequest request) {
  if (!begin_inference()) return;
  expect_answer(Delivery::kWhole);
  GenerationRequest generation = std::exchange(request.generation, {});
  request.generation.wants_token_texts = generation.wants_token_texts;
  generation_->model = generation.model;
  tokens_ = std::move(request);
  complete(generation.flow, generation.origin, false);
  generation_->choices.start(
      [&](auto stream) { return service_.engine().submit(std::move(generation), std::move(stream)); });
}

// As they are when the answer begins.
void Connection::tell_limits() {
  if (exchange_->account)
    exchange_->context.limit_fields = limit_fields(exchange_->account->look(Clock::now()));
}

// What the engine is told of a request beyond its body.
void Connection::complete(std::string& flow, RequestOrigin& origin, bool is_stream) {
  if (flow.empty()) flow = client_network();
  origin = exchange_->origin;
  origin.is_stream = is_stream;
  exchange_->was_submitted = true;
}

// All clients that share a network share their turns; those of the same machine, too.
std::string Connection::client_network() const {
  boost::system::error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  return error ? std::string() : network_of(endpoint.address()).to_string();  // error: it is gone
}

void Connection::look_up(StoredRequest request) {
  if (!answer_detached(request)) ask_store(std::move(request));
}

void Connection::ask_store(StoredRequest request) {
  expect_answer(Delivery::kWhole);
  StoreQuery query = request.query;
  stored_ = std::move(request);
  generation_->choices.start([&](auto stream) {
    service_.engine().look_up(std::move(query), std::move(stream));
    return RequestId{0};
  });
}

void Connection::on_event(ClientStream& stream, ResponseEvent event) {
  if (!generation_ || !generation_->choices.has(stream)) return;
  stream.handled(event);
  if (is_terminal(event)) generation_->choices.end(stream.choice());
  if (!is_dirty_) {
    is_dirty_ = true;
    shard_.flush_later(shared_from_this());
  }
  if (stored_ && generation_->choices.followed()) {
    if (is_terminal(event)) answer_ended();
    return;
  }
  if (std::holds_alternative<Journaled>(event)) {
    if (generation_->request.stream) return begin_stream();
    Reply reply = detached_reply(*generation_->choices.followed());
    end_generation();
    answer(std::move(reply));
  } else if (const auto* accepted = std::get_if<Accepted>(&event)) {
    generation_->usage.prompt_tokens = accepted->prompt_tokens;
    if (phase_ == Phase::kGenerating && generation_->request.stream) begin_stream();
  } else if (auto* delta = std::get_if<TextDelta>(&event)) {
    on_delta(stream, std::move(*delta));
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    on_finished(stream.choice(), *finished);
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    if (stored_ && stored_->may_be_missing && failed->error.kind == ApiErrorKind::kResponseNotFound) {
      Reply reply{.body = deleted_json(stored_->query.response)};
      end_generation();
      return answer(std::move(reply));
    }
    answer_error(to_http_error(failed->error));
  } else if (auto* embedded = std::get_if<Embedded>(&event)) {
    Reply reply =
        embedding_reply(*std::exchange(embedding_, std::nullopt), service_.models()[generation_->model],
                        std::move(*embedded), Clock::now() - exchange_->started);
    end_generation();
    answer(std::move(reply));
  } else if (const auto* encoded = std::get_if<EncodedText>(&event)) {
    if (generation_->choices.is_judging()) return generation_->choices.note_judged(stream.choice());
    Reply reply{.body = token_json(*tokens_, service_.models()[generation_->model], *encoded)};
    end_generation();
    answer(std::move(reply));
  } else if (const auto* found = std::get_if<StoreAnswer>(&event)) {
    Reply reply = stored_reply(*stored_, *found);
    end_generation();
    answer(std::move(reply));
  }
}

void Connection::begin_stream() {
  generation_->writer = make_writer();
  if (exchange_->context.is_http_1_0) exchange_->context.keep_alive = false;  // ends with the body
  phase_ = Phase::kStreaming;
  exchange_->status = 200;
  service_.metrics().http_2xx.add();
  service_.metrics().sse_streams.add(1);
  tell_limits();
  append_stream_head(out_.tail(), exchange_->context,
                     is_ollama(generation_->request.shape) ? kJsonLines : kEventStream);
  for (std::uint32_t i = 0; i < generation_->choices.all().size(); ++i) {
    generation_->writer->choose(i);
    generation_->writer->begin(out_.tail(), generation_->usage);
    queue_long_event();
  }
}

void Connection::queue_long_event() {
  if (auto event = generation_->writer->take_long_event()) out_.add(std::move(*event));
}

EventFraming Connection::framing() const {
  return exchange_->context.is_http_1_0 ? EventFraming::kPlain : EventFraming::kChunked;
}

std::unique_ptr<StreamWriter> Connection::make_writer() const {
  const ApiRequest& request = generation_->request;
  if (generation_->turn)
    return std::make_unique<ResponseEventWriter>(identity(), generation_->turn, framing(),
                                                 generation_->after);
  if (request.shape == ResponseShape::kMessage)
    return std::make_unique<MessageEventWriter>(identity(), exchange_->context.request_id, framing());
  if (is_ollama(request.shape)) return std::make_unique<OllamaWriter>(identity(), framing());
  return std::make_unique<SseWriter>(identity(), framing(),
                                     SseOptions{.include_usage = request.include_usage,
                                                .continuous_usage_stats = request.continuous_usage_stats,
                                                .has_ids = request.is_resumable,
                                                .after = generation_->after});
}

void Connection::on_delta(ClientStream& stream, TextDelta delta) {
  generation_->choices.note_progress(stream.choice());
  if (!generation_->request.stream) return stream.collect(std::move(delta));
  if (phase_ == Phase::kGenerating) begin_stream();
  if (out_.num_bytes() > limits_.max_stream_buffer_bytes) return on_client_gone();
  if (delta.is_empty() && !generation_->request.continuous_usage_stats) return;
  generation_->writer->choose(stream.choice());
  generation_->writer->delta(out_.tail(), delta);
  queue_long_event();
  service_.metrics().sse_events.add();
}

void Connection::on_finished(std::uint32_t choice, const Finished& finished) {
  const bool is_cancelled_response = generation_->choices.followed() && generation_->turn;
  if (finished.reason == FinishReason::kCancelled && !is_cancelled_response) {
    const bool was_left = generation_->choices.followed() && !service_.is_draining();
    return answer_error(http_error(
        503, was_left ? "the answer was ended, since nobody followed it" : "the server is shutting down"));
  }
  if (finished.reason == FinishReason::kError) {
    return answer_error(http_error(500, "the generation failed"));
  }
  Choices& choices = generation_->choices;
  choices.finish(choice, finished);
  choices.note_progress(choice);
  if (!generation_->request.stream) {
    if (!choices.are_over()) return;
    Reply reply = whole_answer(choices.total(choice));
    end_generation();
    return answer(std::move(reply));
  }
  if (phase_ == Phase::kGenerating) begin_stream();
  generation_->writer->choose(choice);
  if (!choices.are_over()) return generation_->writer->finish_choice(out_.tail(), finished);
  generation_->writer->finish(out_.tail(), choices.total(choice));
  queue_long_event();
  exchange_->is_answered = true;
  end_generation();
}

// Of a response, as it is now.
Reply Connection::detached_reply(const DetachedAnswer& answer) const {
  const DetachedAnswer::About& about = answer.about();
  struct Kept {
    DetachedAnswer::Look look;
    std::shared_ptr<const ConversationTurn> turn;
    HttpError error;
  };
  const auto kept = std::make_shared<Kept>(Kept{.look = answer.look(), .turn = about.turn, .error = {}});
  const DetachedAnswer::Look& look = kept->look;
  kept->look.items.name_calls(about.turn->tool_names);
  ResponseView view{.id = about.id,
                    .created = about.created,
                    .model = service_.models()[about.model].name,
                    .previous = about.turn->previous,
                    .instructions = about.turn->instructions,
                    .settings = about.turn->settings,
                    .status = look.is_queued ? ResponseStatus::kQueued : ResponseStatus::kInProgress,
                    .is_stored = true,
                    .answer = &look.items};
  if (look.is_cancelled) view.status = ResponseStatus::kCancelled;
  if (look.finished) {
    view.status = status_of(look.finished->reason);
    view.usage = &look.finished->usage;
  }
  if (look.error) {
    kept->error = to_http_error(*look.error);
    view.status = ResponseStatus::kFailed;
    view.error = &kept->error;
  }
  Reply reply;
  AnswerJson json(reply.body);
  append_response_object(json, view);
  if (json.has_gaps()) reply.long_body = json.take(kept);
  return reply;
}

Reply Connection::whole_answer(const Finished& finished) const {
  const ApiRequest& request = generation_->request;
  if (request.shape == ResponseShape::kChat || request.shape == ResponseShape::kCompletion)
    return whole_choices(finished);
  if (is_ollama(request.shape)) return whole_ollama_answer(finished);
  // Keeps alive what a long answer refers to.
  struct Kept {
    AnswerItems answer;
    std::shared_ptr<const ConversationTurn> turn;
  };
  const auto kept = std::make_shared<Kept>(
      Kept{.answer = generation_->choices.all().front().stream->take_answer(), .turn = generation_->turn});
  Reply reply;
  AnswerJson json(reply.body);
  if (request.shape == ResponseShape::kMessage) {
    append_message(json, identity(), kept->answer, finished);
  } else {
    kept->answer.close();
    kept->answer.name_calls(kept->turn->tool_names);
    append_response_object(json, {.id = generation_->response_id,
                                  .created = generation_->created,
                                  .model = service_.models()[generation_->model].name,
                                  .previous = kept->turn->previous,
                                  .instructions = kept->turn->instructions,
                                  .settings = kept->turn->settings,
                                  .status = status_of(finished.reason),
                                  .is_stored = finished.is_stored,
                                  .answer = &kept->answer,
                                  .usage = &finished.usage,
                                  .timings = &finished.timings});
  }
  if (json.has_gaps()) reply.long_body = json.take(kept);
  return reply;
}

Reply Connection::whole_choices(const Finished& finished) const {
  // Keeps alive what a long answer refers to.
  struct Kept {
    std::vector<JoinedAnswer> answers;
    std::vector<std::shared_ptr<const PromptScores>> scores;
    std::vector<std::shared_ptr<const void>> scores_held;
    std::vector<std::shared_ptr<const void>> found;  // by searches
  };
  const auto kept = std::make_shared<Kept>();
  for (const auto& choice : generation_->choices.all()) {
    kept->answers.push_back(joined(choice.stream->take_answer()));
    kept->scores.push_back(choice.finished.prompt_scores);
    kept->scores_held.push_back(choice.finished.scores_held);
  }
  std::vector<ChoiceView> choices;
  for (const std::uint32_t i : generation_->choices.best_of_each(generation_->request.num_choices)) {
    if (const auto& found = generation_->choices.all()[i].finished.found) {
      for (const FoundAnswer& answer : *found)
        choices.push_back({.text = answer.text, .finished = &answer.finished});
      kept->found.push_back(found);
      continue;
    }
    const JoinedAnswer& answer = kept->answers[i];
    choices.push_back({.text = answer.text,
                       .finished = &generation_->choices.all()[i].finished,
                       .tokens = generation_->request.wants_logprobs ? &answer.tokens : nullptr,
                       .reasoning = answer.reasoning,
                       .calls = answer.calls,
                       .prompt_scores = generation_->choices.prompt_scores(i).get()});
  }
  // Choices repeat their prompt's log-probabilities, so its length may be 100 times what is held.
  Reply reply{.is_counted = !generation_->request.wants_logprobs && !kept->scores.front()};
  AnswerJson json(reply.body);
  append_completed(json, identity(), choices, finished);
  if (json.has_gaps()) reply.long_body = json.take(kept);
  return reply;
}

Reply Connection::whole_ollama_answer(const Finished& finished) const {
  // Keeps alive what a long answer refers to.
  const auto kept =
      std::make_shared<const JoinedAnswer>(joined(generation_->choices.all().front().stream->take_answer()));
  Reply reply;
  AnswerJson json(reply.body);
  reply.body += ollama_head(identity());
  append_ollama_portion(
      json, generation_->request.shape,
      {.text = kept->text, .reasoning = kept->reasoning, .calls = kept->calls, .tokens = kept->tokens});
  append_ollama_end(reply.body, finished);
  if (json.has_gaps()) reply.long_body = json.take(kept);
  return reply;
}

void Connection::end_generation() {
  if (phase_ == Phase::kStreaming) service_.metrics().sse_streams.add(-1);
  generation_->choices.cancel();
  generation_->choices.detach();
  generation_.reset();
  stored_.reset();
  embedding_.reset();
  tokens_.reset();
  phase_ = Phase::kReading;
}

void Connection::end_exchange() {
  const Exchange exchange = std::move(*exchange_);
  exchange_.reset();
  const bool is_of_probe = is_probe(exchange.route);
  // The engine makes the spans itself of what it has seen; probes are no requests.
  Tracer* tracer = service_.options().tracer;
  if (tracer && !exchange.was_submitted && exchange.status >= 400 && !is_of_probe)
    record_refusal(*tracer, exchange.origin, exchange.status);
  if (const auto& access_log = service_.options().access_log) {
    access_log(
        {.method = exchange.method,
         .route = exchange.route.name,
         .status = exchange.status,
         .duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - exchange.started),
         .request_id = exchange.context.request_id,
         .trace_id = hex_of(exchange.origin.trace.trace),
         .was_submitted = exchange.was_submitted,
         .is_probe = is_of_probe});
  }
  if (exchange.is_generation) shard_.answers().remove();
  idle_since_ = Clock::now();
  num_read_ahead_ = 0;
  if (phase_ != Phase::kClosed && !exchange.context.keep_alive) linger();
}

ResponseIdentity Connection::identity() const {
  return {.id = generation_->response_id,
          .created = generation_->created,
          .model = is_ollama(generation_->request.shape) ? generation_->request.called_model
                                                         : service_.models()[generation_->model].name,
          .shape = generation_->request.shape};
}

}  // namespace troupe
