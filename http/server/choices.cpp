// SPDX-License-Identifier: Apache-2.0
#include "http/server/choices.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "actors/request/answer/answer_splitting.hpp"

namespace troupe {
namespace {

// The request of another answer: a draw, a span and an id of its own.
GenerationRequest another(const GenerationRequest& first, std::uint32_t number) {
  GenerationRequest request = first;
  request.id += "-" + std::to_string(number);
  request.sampling.seed += request.has_seed ? number : 0;
  request.num_choices = request.num_drawn_answers = request.num_score_copies = 0;
  request.prompt_logprobs.reset();
  if (first.origin.trace.is_valid()) {
    request.origin.parent = first.origin.trace.span;
    request.origin.trace.span = draw_span_id();
  }
  return request;
}

// The question whether its prompt may be run.
GenerationRequest judging(const GenerationRequest& first) {
  GenerationRequest request = first;
  request.use = PromptUse::kJudge;
  request.form.reset();
  return request;
}

}  // namespace

Choices::Choices(Engine& engine, const MakeStream& make_stream, std::size_t number) : engine_(engine) {
  for (std::uint32_t i = 0; i < number; ++i) choices_.push_back({.stream = make_stream(i)});
}

Choices::Choices(Engine& engine, std::shared_ptr<ClientStream> stream,
                 std::shared_ptr<DetachedAnswer> followed)
    : engine_(engine), followed_(std::move(followed)) {
  choices_.push_back({.stream = std::move(stream)});
  followed_->follow(choices_.front().stream);
}

void Choices::start(std::vector<GenerationRequest> requests) {
  num_prompts_ = requests.size();
  prompts_ = std::move(requests);
  is_first_alone_.assign(num_prompts_, num_each() > 1);
  most_at_once_ = choices_.size();
  if (needs_form_place(prompts_.front()))
    most_at_once_ = std::min<std::size_t>(most_at_once_, kMostBoundAnswers);
  num_unjudged_ = most_at_once_ < choices_.size() ? num_prompts_ : 0;
  queue_first_answers();
  start_due();
}

void Choices::queue_first_answers() {
  for (std::uint32_t prompt = 0; prompt < num_prompts_; ++prompt) due_.push_back(prompt * num_each());
}

void Choices::note_judged(std::uint32_t index) {
  choices_[index].is_over = false;
  choices_[index].id = 0;
  num_unjudged_ -= 1;
  if (!is_judging()) {
    for (GenerationRequest& prompt : prompts_) prompt.is_judged = true;
    queue_first_answers();
  }
  start_due();
}

void Choices::start_due() {
  while (!due_.empty() && num_under_way_ < most_at_once_) {
    const std::uint32_t index = due_.front();
    due_.pop_front();
    num_under_way_ += 1;
    num_started_ += is_judging() ? 0 : 1;
    GenerationRequest request = is_judging() ? judging(prompts_[index / num_each()]) : request_of(index);
    choices_[index].id = engine_.submit(std::move(request), choices_[index].stream);
  }
  if (num_started_ == choices_.size()) form_places_.clear();
}

GenerationRequest Choices::request_of(std::uint32_t index) {
  const std::uint32_t prompt = index / num_each(), number = index % num_each();
  const bool is_last = number + 1 == num_each();
  GenerationRequest first = is_last ? std::exchange(prompts_[prompt], {}) : prompts_[prompt];
  GenerationRequest request = number == 0 ? std::move(first) : another(first, number);
  request.leaves_form_place = most_at_once_ < choices_.size();
  if (!form_places_.empty()) {
    request.form_place = std::move(form_places_.back());
    form_places_.pop_back();
  }
  return request;
}

void Choices::start(const std::function<RequestId(std::shared_ptr<ClientStream>)>& submit) {
  choices_.front().id = submit(choices_.front().stream);
}

bool Choices::has(const ClientStream& stream) const {
  return stream.choice() < choices_.size() && choices_[stream.choice()].stream.get() == &stream;
}

void Choices::note_progress(std::uint32_t index) {
  const std::uint32_t prompt = index / num_each();
  if (prompt < is_first_alone_.size() && is_first_alone_[prompt]) {
    is_first_alone_[prompt] = false;
    for (std::uint32_t i = num_each() - 1; i > 0; --i) due_.push_front(prompt * num_each() + i);
  }
  start_due();
}

void Choices::end(std::uint32_t index) {
  choices_[index].is_over = true;
  if (num_under_way_ > 0) num_under_way_ -= 1;  // one that is followed was not started here
}

void Choices::finish(std::uint32_t index, const Finished& finished) {
  choices_[index].finished = finished;
  auto place = std::exchange(choices_[index].finished.form_place, nullptr);
  if (place && num_started_ < choices_.size()) form_places_.push_back(std::move(place));
}

bool Choices::are_over() const {
  return std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) { return choice.is_over; });
}

Finished Choices::total(std::uint32_t last) const {
  Finished total = choices_[last].finished;
  if (choices_.size() == 1) return total;
  total.timings = {};
  total.usage = {};
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Usage& usage = choices_[i].finished.usage;
    total.usage.completion_tokens += usage.completion_tokens;
    total.usage.reasoning_tokens += usage.reasoning_tokens;
    if (i % num_each() != 0) continue;
    total.usage.prompt_tokens += usage.prompt_tokens;
    total.usage.cached_tokens += usage.cached_tokens;
  }
  return total;
}

std::vector<std::uint32_t> Choices::best_of_each(std::uint32_t number) const {
  std::vector<std::uint32_t> best(choices_.size());
  std::iota(best.begin(), best.end(), 0);
  if (number >= num_each()) return best;
  const auto is_better = [&](std::uint32_t a, std::uint32_t b) {
    return choices_[a].finished.mean_logprob > choices_[b].finished.mean_logprob;
  };
  auto kept = best.begin();
  for (std::size_t prompt = 0; prompt < num_prompts_; ++prompt) {
    const auto first = best.begin() + static_cast<std::ptrdiff_t>(prompt * num_each());
    std::stable_sort(first, first + num_each(), is_better);
    kept = std::copy_n(first, number, kept);
  }
  best.erase(kept, best.end());
  return best;
}

void Choices::take_all() {
  for (const Choice& choice : choices_) {
    if (!choice.stream->take_all()) continue;
    followed_ ? followed_->go_on(*choice.stream) : engine_.resume(choice.id);
  }
}

void Choices::cancel() {
  due_.clear();
  for (Choice& choice : choices_)
    if (!choice.is_over && choice.id != 0) engine_.cancel(std::exchange(choice.id, 0));
}

void Choices::detach() {
  for (const Choice& choice : choices_) choice.stream->detach();
}

}  // namespace troupe
