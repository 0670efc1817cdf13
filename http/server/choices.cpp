// SPDX-License-Identifier: Apache-2.0
#include "http/server/choices.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

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
  is_waiting_.assign(num_prompts_, num_each() > 1);
  if (num_each() > 1) waiting_ = requests;
  for (std::uint32_t prompt = 0; prompt < num_prompts_; ++prompt)
    submit(prompt * num_each(), std::move(requests[prompt]));
}

void Choices::start(const std::function<RequestId(std::shared_ptr<ClientStream>)>& submit) {
  choices_.front().id = submit(choices_.front().stream);
}

void Choices::submit(std::uint32_t index, GenerationRequest request) {
  choices_[index].id = engine_.submit(std::move(request), choices_[index].stream);
}

bool Choices::has(const ClientStream& stream) const {
  return stream.choice() < choices_.size() && choices_[stream.choice()].stream.get() == &stream;
}

void Choices::note_progress(std::uint32_t index) {
  const std::uint32_t prompt = index / num_each();
  if (prompt >= is_waiting_.size() || !is_waiting_[prompt]) return;
  is_waiting_[prompt] = false;
  const GenerationRequest request = std::exchange(waiting_[prompt], {});
  for (std::uint32_t i = 1; i < num_each(); ++i) submit(prompt * num_each() + i, another(request, i));
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
  for (Choice& choice : choices_)
    if (!choice.is_over && choice.id != 0) engine_.cancel(std::exchange(choice.id, 0));
}

void Choices::detach() {
  for (const Choice& choice : choices_) choice.stream->detach();
}

}  // namespace troupe
