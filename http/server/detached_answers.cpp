// SPDX-License-Identifier: Apache-2.0
#include "http/server/detached_answers.hpp"

#include <algorithm>
#include <tuple>
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
    if (!make_room(about.flow)) return nullptr;
    std::shared_ptr<const void> place;
    if (!about.is_background) {
      under_way_->add();
      place = {nullptr, [under_way = under_way_](const void*) { under_way->remove(); }};
    }
    const std::string id = about.id;
    answer = std::make_shared<DetachedAnswer>(engine_, std::move(about), std::move(place));
    answers_.emplace(id, answer);
    publish();
  }
  answer->submit(std::move(request));
  return answer;
}

void DetachedAnswers::fail(DetachedAnswer::About about, ApiError error) {
  const auto answer = std::make_shared<DetachedAnswer>(engine_, std::move(about));
  answer->fail(std::move(error));
  const std::lock_guard lock(mutex_);
  answers_.emplace(answer->about().id, answer);
  publish();
}

// Looks at all of them, which are few. Nothing goes if that would not be enough.
bool DetachedAnswers::make_room(const std::string& flow) {
  struct Size {
    std::uint64_t number = 0, bytes = 0;
  };
  Size running, own;
  // Its own first, then those that ended first.
  std::vector<std::tuple<bool, DetachedAnswer::Clock::time_point, Answers::iterator>> over;
  Size ended;
  for (auto it = answers_.begin(); it != answers_.end(); ++it) {
    const DetachedAnswer& answer = *it->second;
    const std::uint64_t bytes = answer.num_bytes();
    if (const auto when = answer.ended()) {
      over.emplace_back(answer.about().flow != flow, *when, it);
      ended = {ended.number + 1, ended.bytes + bytes};
      continue;
    }
    running = {running.number + 1, running.bytes + bytes};
    if (answer.about().flow == flow) own = {own.number + 1, own.bytes + bytes};
  }
  const auto is_in = [&](const Size& most) {
    return own.number + running.number < most.number && own.bytes + running.bytes < most.bytes;
  };
  const Size most{limits_.max_detached_answers, limits_.max_detached_bytes};
  if (!is_in(most)) return false;
  std::sort(over.begin(), over.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (const auto& [is_others, when, it] : over) {
    const bool has_room =
        running.number + ended.number < most.number && running.bytes + ended.bytes < most.bytes;
    if (has_room) break;
    ended = {ended.number - 1, ended.bytes - std::min(ended.bytes, it->second->num_bytes())};
    answers_.erase(it);
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

void DetachedAnswers::cancel_streams() {
  std::vector<std::shared_ptr<DetachedAnswer>> streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, answer] : answers_)
      if (!answer->about().is_background) streams.push_back(answer);
  }
  for (const auto& answer : streams) answer->cancel();
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
