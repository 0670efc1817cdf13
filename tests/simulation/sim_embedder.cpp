// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_embedder.hpp"

#include <algorithm>
#include <variant>

#include "tests/actors/byte_tokenizer.hpp"

namespace troupe::sim {

void SimEmbedder::start() {
  id_ = world_.engine().embed(plan_.request, shared_from_this());
  const auto cancel = [weak = weak_from_this()] {
    if (const auto client = weak.lock()) client->cancel();
  };
  if (plan_.cancel_after) world_.after(*plan_.cancel_after, cancel);
  if (plan_.cancel_after_steps) world_.after_steps(*plan_.cancel_after_steps, cancel);
}

void SimEmbedder::cancel() {
  if (has_ended()) return;
  was_cancelled_ = true;
  world_.engine().cancel(id_);
}

void SimEmbedder::deliver(ResponseEvent event) {
  if (has_ended()) violate("an event after the last one");
  num_events_ += 1;
  world_.trace(id_ << 8 | event.index());
  if (const auto* embedded = std::get_if<Embedded>(&event)) {
    check(*embedded);
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    error_ = failed->error;
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    if (finished->reason != FinishReason::kCancelled || !was_cancelled_) violate("ended without vectors");
  } else {
    violate("an event of another kind of request");
  }
}

void SimEmbedder::check(const Embedded& embedded) {
  has_vectors_ = true;
  if (plan_.tree_numbers) {
    if (embedded.vectors != *plan_.tree_numbers) violate("wrong numbers of nodes");
    if (embedded.prompt_tokens != plan_.tree_numbers->size()) violate("wrong usage of trees");
    return;
  }
  std::vector<float> expected;
  std::uint32_t num_tokens = 0;
  for (std::size_t input = 0; input < num_inputs(); ++input) {
    const auto tokens = tokens_of(input);
    const auto vector = sim_vector(tokens);
    expected.insert(expected.end(), vector.begin(), vector.end());
    num_tokens += static_cast<std::uint32_t>(tokens.size());
  }
  if (embedded.vectors != expected) violate("wrong vectors");
  if (embedded.prompt_tokens != num_tokens) violate("wrong usage");
}

std::vector<std::int32_t> SimEmbedder::tokens_of(std::size_t input) const {
  const auto& given = plan_.request.inputs[input];
  const auto* text = std::get_if<TextPrompt>(&given);
  auto tokens = text ? ByteTokenizer().encode(text->text) : std::get<TokenPrompt>(given).tokens;
  const std::size_t longest = world_.engine_settings().encoder->description.context_length;
  tokens.resize(std::min(tokens.size(), longest));
  return tokens;
}

void SimEmbedder::violate(const std::string& what) {
  world_.devices().violations.push_back("embedding request " + std::to_string(id_) + ": " + what);
}

}  // namespace troupe::sim
