// SPDX-License-Identifier: Apache-2.0
// The answers to one request: prompts times n (or best_of), each a generation of its own, by index.
// The first answer to a prompt is started at once, its others when it has a first
// token: by then the KV of the prompt's full pages is in the prefix cache for them.
// Answers that are bound to a form are kMostBoundAnswers at once; the next one starts when one
// of them ends, in its place. Where there are more, all prompts are judged before the first is run.
// Belongs to the io thread of its connection.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "actors/engine.hpp"
#include "http/server/client_stream.hpp"
#include "http/server/detached_answer.hpp"
#include "telemetry/tracing/trace_context.hpp"

namespace troupe {

class Choices {
 public:
  struct Choice {
    std::shared_ptr<ClientStream> stream;
    RequestId id = 0;  // 0: not started, or nothing to cancel
    bool is_over = false;
    Finished finished = {};
  };
  using MakeStream = std::function<std::shared_ptr<ClientStream>(std::uint32_t index)>;

  Choices(Engine& engine, const MakeStream& make_stream, std::size_t number);
  // The only one goes on without this client, which follows it.
  Choices(Engine& engine, std::shared_ptr<ClientStream> stream, std::shared_ptr<DetachedAnswer> followed);

  // Each request is a prompt's first answer; there are as many others for each that the
  // number of choices is `requests` times a whole number.
  void start(std::vector<GenerationRequest> requests);
  // A single one, started by `submit`.
  void start(const std::function<RequestId(std::shared_ptr<ClientStream>)>& submit);

  std::span<const Choice> all() const { return choices_; }
  const DetachedAnswer* followed() const { return followed_.get(); }  // null: none
  bool has(const ClientStream& stream) const;
  bool is_judging() const { return num_unjudged_ > 0; }
  // The prompt of this answer, the first to it, may be run.
  void note_judged(std::uint32_t index);
  // An answer has tokens, or has ended: those that waited for it are started.
  void note_progress(std::uint32_t index);
  void end(std::uint32_t index);
  void finish(std::uint32_t index, const Finished& finished);
  bool are_over() const;
  // As the last one ended, with the tokens of all: a prompt's count once. The times of a
  // single one alone are its request's.
  Finished total(std::uint32_t last) const;

  // Indexes of the `number` most likely answers to each prompt, the best first; without a
  // choice to make, of all in their order.
  std::vector<std::uint32_t> best_of_each(std::uint32_t number) const;

  // Scores of the prompt that this choice answers, which its first answer brought; null: none.
  const std::shared_ptr<const PromptScores>& prompt_scores(std::uint32_t index) const {
    return choices_[index - index % num_each()].finished.prompt_scores;
  }

  // Their client has taken all that came: those that were paused for it run again.
  void take_all();
  void cancel();
  void detach();

 private:
  std::uint32_t num_each() const { return static_cast<std::uint32_t>(choices_.size() / num_prompts_); }
  void queue_first_answers();
  void start_due();
  GenerationRequest request_of(std::uint32_t index);

  Engine& engine_;
  std::vector<Choice> choices_;
  std::shared_ptr<DetachedAnswer> followed_;
  std::size_t num_prompts_ = 1;
  std::vector<GenerationRequest> prompts_;  // first answers' requests, until all answers are started
  std::size_t num_unjudged_ = 0;            // of these
  std::vector<bool> is_first_alone_;        // by prompt: its others wait for its first answer
  std::deque<std::uint32_t> due_;           // indexes of answers that only wait for room
  std::size_t num_started_ = 0, num_under_way_ = 0, most_at_once_ = 0;
  std::vector<std::shared_ptr<const void>> form_places_;  // for answers not started, left by others
};

}  // namespace troupe
