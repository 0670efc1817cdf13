// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_client.hpp"

#include <functional>
#include <utility>
#include <variant>

#include "tests/simulation/expected_calls.hpp"

namespace troupe::sim {

SimClient::SimClient(SimWorld& world, ClientPlan plan) : world_(world), plan_(std::move(plan)) {
  if (plan_.is_refused) return;
  const SimDeviceSettings& device = world_.engine_settings().chat(plan_.request.model);
  GenerationRequest heard = plan_.request;
  if (device.is_second) heard.sampling.seed += kSecondDialect;
  expected_ = expected_answer(heard, device.description);
}

void SimClient::start() {
  id_ = world_.engine().submit(plan_.request, shared_from_this());
  const auto cancel = [weak = weak_from_this()] {
    if (const auto client = weak.lock()) client->cancel();
  };
  if (plan_.cancel_after) world_.after(*plan_.cancel_after, cancel);
  if (plan_.cancel_after_steps) world_.after_steps(*plan_.cancel_after_steps, cancel);
  if (plan_.read_interval) read_later();
}

void SimClient::cancel() {
  if (has_ended()) return;
  was_cancelled_ = true;
  world_.devices().note_departure();
  world_.engine().cancel(id_);
}

void SimClient::read_later() {
  const std::weak_ptr<SimClient> weak = weak_from_this();
  world_.after(*plan_.read_interval, [weak] {
    const auto client = weak.lock();
    if (!client || client->has_ended()) return;
    if (client->unread_bytes_ > 0) {
      client->unread_bytes_ = 0;
      client->world_.engine().resume(client->id_);
    }
    client->read_later();
  });
}

void SimClient::deliver(ResponseEvent event) {
  if (has_ended()) violate("an event after the last one");
  num_events_ += 1;
  world_.trace(id_ << 8 | event.index());
  std::visit([this](const auto& value) { take(value); }, event);
  if (plan_.cancel_at_event == num_events_) cancel();
}

void SimClient::take(const Accepted&) {
  if (is_accepted_) violate("accepted twice");
  if (plan_.is_refused) violate("accepted, but must be refused");
  is_accepted_ = true;
}

void SimClient::take(const TextDelta& delta) {
  if (!is_accepted_) violate("text before it was accepted");
  text_ += delta.text;
  add_calls(calls_, delta.calls);
  for (const AnswerToken& token : delta.tokens) {
    if (token.text_offset > text_.size()) violate("a token in front of its text");
    tokens_.push_back(token);
  }
  if (plan_.read_interval) unread_bytes_ += delta.text.size();
  cached_tokens_ = delta.usage.cached_tokens;
  const bool is_echo = plan_.request.echo && delta.usage.completion_tokens == 0;
  if (!is_echo) num_tokens_ += 1;
  if (delta.usage.completion_tokens != num_tokens_) violate("a token lost or repeated");
  if (!expected_.text.starts_with(text_)) violate("wrong text: " + text_);
}

void SimClient::take(const Finished& finished) {
  num_terminal_ += 1;
  finished_ = finished;
  if (finished.usage.completion_tokens != num_tokens_) violate("wrong usage at the end");
  if (finished.reason == FinishReason::kCancelled) {
    if (!was_cancelled_) violate("cancelled by nobody");
    return;
  }
  if (text_ != expected_.text) violate("incomplete: " + text_ + ", not " + expected_.text);
  if (calls_ != expected_.calls) violate("wrong calls: " + calls_ + ", not " + expected_.calls);
  if (finished.reason != expected_.reason) violate("wrong finish reason");
  if (finished.stop_string != expected_.stop_string) violate("wrong stop string");
  if (finished.stop_token != expected_.stop_token) violate("wrong stop token");
  if (num_tokens_ != expected_.completion_tokens) violate("wrong number of tokens");
  check_tokens();
}

void SimClient::check_tokens() {
  const SamplingParameters& sampling = plan_.request.sampling;
  const std::size_t expected = sampling.wants_logprobs() ? expected_.tokens.size() : 0;
  if (tokens_.size() != expected) return violate("log-probabilities of another number of tokens");
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AnswerToken& token = tokens_[i];
    const ExpectedToken& wanted = expected_.tokens[i];
    const bool is_first = wanted.position == 0;
    const std::size_t num_top = is_first ? 0 : static_cast<std::size_t>(sampling.top_logprobs);
    if (token.text_offset != wanted.begin || token.has_logprob == is_first ||
        (!is_first && token.token.logprob != sim_logprob(wanted.id, wanted.position)) ||
        token.top.size() != num_top)
      violate("a wrong log-probability");
  }
}

void SimClient::take(const Failed& failed) {
  num_terminal_ += 1;
  error_ = failed.error;
}

void SimClient::violate(const std::string& what) {
  world_.devices().violations.push_back("request " + std::to_string(id_) + ": " + what);
}

}  // namespace troupe::sim
