// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/response_stream.hpp"

#include <exception>
#include <utility>

#include "actors/reports/status_board.hpp"
#include "actors/request/request_registry.hpp"
#include "telemetry/log.hpp"

namespace troupe {

ResponseStream::ResponseStream(RequestId id, std::shared_ptr<ResponseSink> sink,
                               std::shared_ptr<RequestRegistry> registry, std::shared_ptr<StatusBoard> board,
                               Metrics& metrics)
    : id_(id),
      sink_(std::move(sink)),
      registry_(std::move(registry)),
      board_(std::move(board)),
      metrics_(metrics) {
  board_->num_open += 1;
}

ResponseStream::~ResponseStream() {
  if (is_over()) return;
  try {
    fail({.kind = ApiErrorKind::kInternal, .message = "The request was lost inside the server."});
  } catch (const std::exception& error) {
    log(LogLevel::kError, "a client was not told of its end", {{"reason", error.what()}});
  }
}

void ResponseStream::note_journaled(Journaled journaled) { sink_->deliver(journaled); }

std::optional<ApiError> ResponseStream::charge_prompt(std::uint64_t num_prompt, std::uint64_t max_drawn,
                                                      TenantAccount::TimePoint now) {
  if (!tab_) return std::nullopt;
  auto refusal = tab_->reserve(num_prompt, max_drawn, now);
  if (refusal) return refusal;
  num_charged_ += num_prompt;
  if (keeps_charges_) keep_charges();
  return std::nullopt;
}

void ResponseStream::charge_judged(std::uint64_t num_prompt, TenantAccount::TimePoint now) {
  if (!tab_) return;
  tab_->take_again(num_prompt, now);
  num_charged_ += num_prompt;
  if (keeps_charges_) keep_charges();
}

void ResponseStream::keep_charges() {
  keeps_charges_ = true;
  if (tab_) tab_->keep(std::exchange(num_charged_, 0));
}

void ResponseStream::accept(std::uint32_t prompt_tokens) {
  is_accepted_ = true;
  keep_charges();
  sink_->deliver(Accepted{prompt_tokens});
}

void ResponseStream::add_text(TextDelta delta) { sink_->deliver(std::move(delta)); }

void ResponseStream::finish(Finished finished) {
  switch (finished.reason) {
    case FinishReason::kStop: metrics_.requests_stop.add(); break;
    case FinishReason::kLength: metrics_.requests_length.add(); break;
    case FinishReason::kCancelled: metrics_.requests_cancelled.add(); break;
    case FinishReason::kError: metrics_.requests_error.add(); break;
  }
  end(std::move(finished));
}

void ResponseStream::embed(Embedded embedded) { end(std::move(embedded)); }

void ResponseStream::encode(EncodedText encoded) { end(std::move(encoded)); }

void ResponseStream::fail(ApiError error) {
  count_failure(error.kind);
  end(Failed{std::move(error)});
}

void ResponseStream::count_failure(ApiErrorKind kind) const {
  switch (kind) {
    case ApiErrorKind::kOverloaded: return metrics_.refused_overload.add();
    case ApiErrorKind::kWaitedTooLong: return metrics_.refused_queue_time.add();
    case ApiErrorKind::kDisplaced: return metrics_.refused_displaced.add();
    case ApiErrorKind::kRateLimited: return metrics_.refused_rate.add();
    case ApiErrorKind::kInvalidRequest:
    case ApiErrorKind::kResponseNotFound:
    case ApiErrorKind::kPreviousResponseNotFound:
    case ApiErrorKind::kModelNotFound: return metrics_.refused_invalid.add();
    case ApiErrorKind::kContextTooLong: return metrics_.refused_too_long.add();
    case ApiErrorKind::kUnavailable: {
      if (is_accepted_) return metrics_.requests_error.add();
      const bool is_draining = board_->state() == EngineState::kDraining;
      return (is_draining ? metrics_.refused_draining : metrics_.refused_unavailable).add();
    }
    case ApiErrorKind::kStoreFull:
    case ApiErrorKind::kStoreFailed:
    case ApiErrorKind::kInternal: return metrics_.requests_error.add();
  }
}

// Its tenant may have another one from the moment the client hears of the end. Told first, forgotten then:
// who finds no open request left may rely on all clients having been told. Forgotten even if the sink throws.
void ResponseStream::end(ResponseEvent event) {
  if (tab_ && num_charged_ > 0) tab_->put_back(num_charged_);
  tab_.reset();
  const auto sink = std::exchange(sink_, nullptr);
  const std::unique_ptr<ResponseStream, void (*)(ResponseStream*)> forget(
      this, [](ResponseStream* stream) { stream->forget(); });
  sink->deliver(std::move(event));
}

void ResponseStream::forget() {
  pass_.reset();
  board_->num_open -= 1;
  registry_->remove(id_);
}

}  // namespace troupe
