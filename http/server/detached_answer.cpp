// SPDX-License-Identifier: Apache-2.0
#include "http/server/detached_answer.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

// A client that takes up an answer gets as much at a time; more is not kept for it.
constexpr std::size_t kReplayedAhead = 64 * 1024;
constexpr std::chrono::seconds kBeforeAskingAgain{1};

std::size_t size_of(const ResponseEvent& event) {
  std::size_t size = sizeof(ResponseEvent);
  const auto* delta = std::get_if<TextDelta>(&event);
  if (delta == nullptr) return size;
  size += delta->text.size() + delta->reasoning.size();
  for (const CallDelta& call : delta->calls)
    size += sizeof(CallDelta) + call.id.size() + call.name.size() + call.arguments.size();
  for (const AnswerToken& token : delta->tokens)
    size += sizeof(AnswerToken) + token.top.size() * sizeof(LikelyToken);
  return size;
}

}  // namespace

void DetachedAnswer::submit(GenerationRequest request) {
  {
    const std::lock_guard lock(mutex_);
    request_ = std::move(request);
  }
  ask();
}

void DetachedAnswer::fail(ApiError error) {
  const std::lock_guard lock(mutex_);
  keep(Journaled{});
  keep(Failed{std::move(error)});
}

// The engine may deliver before submit() returns.
void DetachedAnswer::ask() {
  GenerationRequest request;
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_ || has_ended_) return;
    ask_again_.reset();
    request = about_.is_background ? request_ : std::exchange(request_, {});
  }
  const RequestId id = engine_.submit(std::move(request), shared_from_this());
  bool was_cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    request_id_ = id;
    was_cancelled = is_cancelled_;
  }
  if (was_cancelled) engine_.cancel(id);
}

void DetachedAnswer::deliver(ResponseEvent event) {
  const std::lock_guard lock(mutex_);
  if (has_ended_ || was_left_) return;
  if (is_of_engine_that_ends(event)) {
    was_left_ = !events_.empty() || about_.is_known;
    if (was_left_) return;
    event = Failed{{.kind = ApiErrorKind::kUnavailable, .message = "The server is shutting down."}};
  }
  if (const auto* failed = std::get_if<Failed>(&event); failed != nullptr && may_ask_again(failed->error)) {
    if (!is_cancelled_) {
      ask_again_ = Clock::now() + kBeforeAskingAgain;
      return;
    }
    is_journal_to_end_ = true;
    event = Finished{.reason = FinishReason::kCancelled, .stop_string = {}, .stop_token = {}, .usage = {}};
  }
  if (is_cancelled_) is_journal_to_end_ = is_terminal(event);  // whoever else was about to
  if (const auto* journaled = std::get_if<Journaled>(&event)) {
    if (!events_.empty()) return;  // of a request that was asked again
    auto run = std::make_shared<BackgroundRun>(*request_.background);
    run->is_journaled = true;
    run->unbound_from = journaled->unbound_from;
    request_.background = std::move(run);
    request_.num_drawn_answers = 0;  // its tenant's tokens are counted
  }
  keep(std::move(event));
  for (Follower& follower : followers_) pump(follower);
  std::erase_if(followers_, [](const Follower& follower) { return follower.stream.expired(); });
}

bool DetachedAnswer::may_ask_again(const ApiError& error) const {
  return look_.is_queued && request_.background && request_.background->is_journaled &&
         may_be_asked_again(error.kind);
}

// The engine ends: nobody has cancelled it.
bool DetachedAnswer::is_of_engine_that_ends(const ResponseEvent& event) const {
  if (!about_.is_background || is_cancelled_) return false;
  const auto* finished = std::get_if<Finished>(&event);
  const auto* failed = std::get_if<Failed>(&event);
  return (finished != nullptr && finished->reason == FinishReason::kCancelled) ||
         (failed != nullptr && !look_.is_queued && failed->error.kind == ApiErrorKind::kUnavailable);
}

void DetachedAnswer::keep(ResponseEvent event) {
  if (!std::holds_alternative<Journaled>(event)) look_.is_queued = false;
  if (const auto* delta = std::get_if<TextDelta>(&event)) {
    look_.items.add(*delta);
    look_.usage = delta->usage;
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    look_.finished = *finished;
    look_.usage = finished->usage;
    look_.is_cancelled = finished->reason == FinishReason::kCancelled;
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    look_.error = failed->error;
  }
  has_ended_ = is_terminal(event);
  if (has_ended_) {
    last_needed_ = ended_at_ = Clock::now();
    under_way_.reset();
  }
  num_bytes_ += 2 * size_of(event);  // with look_.items
  if (!look_.is_queued) request_ = {};
  events_.push_back(std::move(event));
}

void DetachedAnswer::follow(const std::shared_ptr<ClientStream>& stream) {
  const std::lock_guard lock(mutex_);
  last_needed_ = Clock::now();
  followers_.push_back({.stream = stream});
  pump(followers_.back());
}

void DetachedAnswer::go_on(const ClientStream& stream) {
  const std::lock_guard lock(mutex_);
  for (Follower& follower : followers_)
    if (follower.stream.lock().get() == &stream) pump(follower);
}

void DetachedAnswer::pump(Follower& follower) {
  const auto stream = follower.stream.lock();
  if (!stream) return;
  while (follower.next < events_.size() && stream->pending_bytes() < kReplayedAhead)
    stream->deliver(events_[follower.next++]);
}

DetachedAnswer::Look DetachedAnswer::look() const {
  const std::lock_guard lock(mutex_);
  return look_;
}

void DetachedAnswer::cancel() {
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_ || std::exchange(is_cancelled_, true)) return;
    // Nothing is under way that could say so.
    if (std::exchange(ask_again_, std::nullopt) || std::exchange(was_left_, false)) {
      is_journal_to_end_ = true;
      keep(Finished{.reason = FinishReason::kCancelled, .stop_string = {}, .stop_token = {}, .usage = {}});
      for (Follower& follower : followers_) pump(follower);
    }
    id = request_id_;
  }
  if (id != 0) engine_.cancel(id);
  end_journal();
}

void DetachedAnswer::end_journal() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(is_journal_to_end_, false)) return;
  }
  engine_.end_journal(about_.id);
}

bool DetachedAnswer::tend(Clock::time_point now, std::chrono::milliseconds keep) {
  bool asks = false;
  bool was_refused = false;
  bool is_abandoned = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(followers_, [](const Follower& follower) { return follower.stream.expired(); });
    if (!followers_.empty() || (about_.is_background && !has_ended_)) last_needed_ = now;
    if (now - last_needed_ >= keep) {
      if (has_ended_) return false;
      is_abandoned = true;
    }
    asks = ask_again_ && now >= *ask_again_;
    // Its client was told at once, and knows no id.
    was_refused = about_.is_background && !about_.is_known && has_ended_ &&
                  std::holds_alternative<Failed>(events_.front());
  }
  if (was_refused) return false;
  end_journal();
  if (is_abandoned) cancel();
  if (asks) ask();
  return true;
}

std::optional<DetachedAnswer::Clock::time_point> DetachedAnswer::ended() const {
  const std::lock_guard lock(mutex_);
  if (!has_ended_) return std::nullopt;
  return ended_at_;
}

std::size_t DetachedAnswer::num_bytes() const {
  const std::lock_guard lock(mutex_);
  return num_bytes_ + (request_.background ? request_.background->body.size() : 0);
}

}  // namespace troupe
