// SPDX-License-Identifier: Apache-2.0
#include "http/server/detached_answers.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kBetweenTicks{250};

}  // namespace

std::shared_ptr<DetachedAnswer> DetachedAnswers::start(DetachedAnswer::About about,
                                                       GenerationRequest request) {
  std::shared_ptr<DetachedAnswer> answer;
  {
    const std::lock_guard lock(mutex_);
    if (!make_room()) return nullptr;
    const std::string id = about.id;
    answer = std::make_shared<DetachedAnswer>(engine_, std::move(about));
    answers_.emplace(id, answer);
    publish();
  }
  answer->submit(std::move(request));
  return answer;
}

void DetachedAnswers::fail(DetachedAnswer::About about, ApiError error) {
  const auto answer = std::make_shared<DetachedAnswer>(engine_, std::move(about));
  answer->deliver(Failed{std::move(error)});
  const std::lock_guard lock(mutex_);
  answers_.emplace(answer->about().id, answer);
  publish();
}

// Looks at all of them, which are few.
bool DetachedAnswers::make_room() {
  std::size_t num_bytes = 0;
  for (const auto& [id, answer] : answers_) num_bytes += answer->num_bytes();
  const auto is_full = [&] {
    return answers_.size() >= limits_.max_detached_answers || num_bytes > limits_.max_detached_bytes;
  };
  while (is_full()) {
    auto oldest = answers_.end();
    for (auto it = answers_.begin(); it != answers_.end(); ++it) {
      if (!it->second->has_ended()) continue;
      if (oldest == answers_.end() || it->second->about().created < oldest->second->about().created)
        oldest = it;
    }
    if (oldest == answers_.end()) return false;
    num_bytes -= oldest->second->num_bytes();
    answers_.erase(oldest);
  }
  return true;
}

std::shared_ptr<DetachedAnswer> DetachedAnswers::find(std::string_view tenant, std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(id);
  return found != answers_.end() && found->second->about().tenant == tenant ? found->second : nullptr;
}

void DetachedAnswers::forget(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(id);
  if (found == answers_.end()) return;
  answers_.erase(found);
  publish();
}

void DetachedAnswers::tick(DetachedAnswer::Clock::time_point now) {
  std::vector<std::shared_ptr<DetachedAnswer>> all;
  {
    const std::lock_guard lock(mutex_);
    if (now < next_tick_) return;
    next_tick_ = now + kBetweenTicks;
    for (const auto& [id, answer] : answers_) all.push_back(answer);
  }
  for (const auto& answer : all)
    if (!answer->tend(now, std::chrono::milliseconds(limits_.detached_keep_ms))) forget(answer->about().id);
}

void DetachedAnswers::publish() { metrics_.detached_answers.set(static_cast<double>(answers_.size())); }

}  // namespace troupe
