// SPDX-License-Identifier: Apache-2.0
// What a connection answers: replies at once, generations as their events come.
#include "http/connection.hpp"

#include <chrono>
#include <utility>

#include "http/refusal_span.hpp"
#include "http/response_event_writer.hpp"
#include "http/response_object.hpp"
#include "http/shard.hpp"
#include "http/sse_writer.hpp"
#include "telemetry/metrics.hpp"

namespace troupe {
namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Connection::begin_exchange(HttpRequest request) {
  ++num_requests_;
  num_read_ahead_ = parser_.num_buffered();
  open_exchange(request);
  has_request_begun_ = has_body_begun_ = false;
  if (num_requests_ >= limits_.max_requests_per_connection || service_.is_draining() || input_ended_) {
    exchange_->context.keep_alive = false;
  }
  auto handled = service_.handle(request, exchange_->route);
  if (const auto* reply = std::get_if<Reply>(&handled)) return answer(*reply);
  if (auto* stored = std::get_if<StoredRequest>(&handled)) return look_up(std::move(*stored));
  start_generation(std::move(std::get<ApiRequest>(handled)));
}

void Connection::open_exchange(const HttpRequest& request) {
  const RouteMatch route = match_route(request.target);
  RequestOrigin origin = service_.origin_of(request, route, request_since_);
  ResponseContext context = service_.context_for(request, origin);
  exchange_ = Exchange{.route = route,
                       .method = origin.method,
                       .origin = std::move(origin),
                       .context = std::move(context),
                       .started = request_since_};
}

void Connection::answer(const Reply& reply) {
  append_reply(out_, exchange_->context, reply);
  exchange_->status = reply.status;
  exchange_->is_answered = true;
  Metrics& metrics = service_.metrics();
  (reply.status < 400 ? metrics.http_2xx : reply.status < 500 ? metrics.http_4xx : metrics.http_5xx).add();
  write_out();
}

void Connection::answer_error(HttpError error) {
  if (phase_ == Phase::kStreaming) {
    generation_->writer->error(out_, error);
    exchange_->context.keep_alive = false;
    exchange_->is_answered = true;
    return end_generation();
  }
  if (!exchange_) open_exchange(parser_.request());  // it could not be read to its end
  if (error.close) exchange_->context.keep_alive = false;
  if (generation_) end_generation();
  answer(error_reply(error));
}

void Connection::start_generation(ApiRequest request) {
  shard_.answers().add();
  exchange_->is_generation = true;
  // Looked at after being counted: a drain waits for this one or refuses it.
  if (service_.is_draining()) {
    service_.metrics().refused_draining.add();
    return answer_error(http_error(503, "the server is shutting down"));
  }
  generation_ = std::make_unique<Generation>();
  generation_->stream = std::make_shared<ClientStream>(shard_.outbox(), this,
                                                       request.stream ? Delivery::kEvents : Delivery::kWhole,
                                                       service_.metrics().sse_backlog);
  generation_->response_id = request.generation.id;
  generation_->turn = request.generation.turn;
  generation_->created = generation_->turn ? generation_->turn->created : unix_seconds();
  GenerationRequest generation = std::exchange(request.generation, {});
  generation_->request = std::move(request);
  submit(std::move(generation));
}

void Connection::submit(GenerationRequest request) {
  request.origin = exchange_->origin;
  request.origin.is_stream = generation_->request.stream;
  exchange_->was_submitted = true;
  phase_ = Phase::kGenerating;
  generation_->id = service_.engine().submit(std::move(request), generation_->stream);
}

// The store answers as the engine does, with a single event.
void Connection::look_up(StoredRequest request) {
  generation_ = std::make_unique<Generation>();
  generation_->stream =
      std::make_shared<ClientStream>(shard_.outbox(), this, Delivery::kWhole, service_.metrics().sse_backlog);
  phase_ = Phase::kGenerating;
  StoreQuery query = request.query;
  stored_ = std::move(request);
  service_.engine().look_up(std::move(query), generation_->stream);
}

void Connection::on_event(ClientStream& stream, ResponseEvent event) {
  if (!generation_ || generation_->stream.get() != &stream) return;
  stream.handled(event);
  if (!is_dirty_) {
    is_dirty_ = true;
    shard_.flush_later(shared_from_this());
  }
  if (const auto* accepted = std::get_if<Accepted>(&event)) {
    generation_->usage.prompt_tokens = accepted->prompt_tokens;
    if (phase_ == Phase::kGenerating) begin_stream();
  } else if (const auto* delta = std::get_if<TextDelta>(&event)) {
    on_delta(*delta);
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    on_finished(*finished);
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    answer_error(to_http_error(failed->error));
  } else if (const auto* found = std::get_if<StoreAnswer>(&event)) {
    const Reply reply = stored_reply(*stored_, *found);
    end_generation();
    answer(reply);
  }
}

void Connection::begin_stream() {
  generation_->writer = make_writer();
  if (exchange_->context.is_http_1_0) exchange_->context.keep_alive = false;  // ends with the body
  phase_ = Phase::kStreaming;
  exchange_->status = 200;
  service_.metrics().http_2xx.add();
  service_.metrics().sse_streams.add(1);
  append_stream_head(out_, exchange_->context);
  generation_->writer->begin(out_, generation_->usage);
}

std::unique_ptr<StreamWriter> Connection::make_writer() const {
  const auto framing = exchange_->context.is_http_1_0 ? EventFraming::kPlain : EventFraming::kChunked;
  const ApiRequest& request = generation_->request;
  if (generation_->turn) return std::make_unique<ResponseEventWriter>(identity(), generation_->turn, framing);
  return std::make_unique<SseWriter>(identity(), framing, request.include_usage,
                                     request.continuous_usage_stats);
}

void Connection::on_delta(const TextDelta& delta) {
  if (phase_ == Phase::kGenerating) begin_stream();
  if (num_unsent() > limits_.max_stream_buffer_bytes) return on_client_gone();
  const bool is_empty = delta.text.empty() && delta.tokens.empty();
  if (is_empty && !generation_->request.continuous_usage_stats) return;
  generation_->writer->delta(out_, delta);
  service_.metrics().sse_events.add();
}

void Connection::on_finished(const Finished& finished) {
  if (finished.reason == FinishReason::kCancelled) {
    return answer_error(http_error(503, "the server is shutting down"));
  }
  if (finished.reason == FinishReason::kError) {
    return answer_error(http_error(500, "the generation failed"));
  }
  if (!generation_->request.stream) {
    const std::string body = whole_answer(finished);
    end_generation();
    return answer(Reply{.body = body});
  }
  if (phase_ == Phase::kGenerating) begin_stream();
  generation_->writer->finish(out_, finished);
  exchange_->is_answered = true;
  end_generation();
}

std::string Connection::whole_answer(const Finished& finished) const {
  const std::string& text = generation_->stream->whole_text();
  const auto& turn = generation_->turn;
  const auto& tokens = generation_->stream->whole_tokens();
  if (!turn) {
    return completed_json(identity(), text, finished,
                          generation_->request.wants_logprobs ? &tokens : nullptr);
  }
  std::string body;
  append_response_object(body, {.id = generation_->response_id,
                                .created = generation_->created,
                                .model = service_.model().name,
                                .previous = turn->previous,
                                .instructions = turn->instructions,
                                .settings = turn->settings,
                                .status = status_of(finished.reason),
                                .is_stored = finished.is_stored,
                                .text = text,
                                .tokens = tokens,
                                .usage = &finished.usage,
                                .timings = &finished.timings});
  return body;
}

void Connection::end_generation() {
  if (phase_ == Phase::kStreaming) service_.metrics().sse_streams.add(-1);
  generation_->stream->detach();
  generation_.reset();
  stored_.reset();
  phase_ = Phase::kReading;
}

void Connection::end_exchange() {
  const Exchange exchange = std::move(*exchange_);
  exchange_.reset();
  // Of what the engine has seen it makes the spans itself; probes are no requests.
  Tracer* tracer = service_.options().tracer;
  if (tracer && !exchange.was_submitted && exchange.status >= 400 && !exchange.route.is_public)
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
         .is_probe = exchange.route.is_public});
  }
  if (exchange.is_generation) shard_.answers().remove();
  idle_since_ = Clock::now();
  num_read_ahead_ = 0;
  if (phase_ != Phase::kClosed && !exchange.context.keep_alive) linger();
}

ResponseIdentity Connection::identity() const {
  return {.id = generation_->response_id,
          .created = generation_->created,
          .model = service_.model().name,
          .shape = generation_->request.shape};
}

}  // namespace troupe
