// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/admission.hpp"

#include <algorithm>

namespace troupe {
namespace {

std::string describe_limit(const ServingLimits& limits) {
  if (limits.page_capacity < limits.context_length)
    return "This server's KV memory holds sequences of at most " + std::to_string(limits.page_capacity) +
           " tokens";
  return "This model's maximum context length is " + std::to_string(limits.context_length) + " tokens";
}

std::optional<Refusal> check_ids(std::span<const std::int32_t> ids, std::uint32_t vocabulary_size,
                                 const std::string& field) {
  std::uint32_t most = 0;  // one that is negative counts as very large
  for (const std::int32_t id : ids) most = std::max(most, static_cast<std::uint32_t>(id));
  if (ids.empty() || most < vocabulary_size) return std::nullopt;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<std::uint32_t>(ids[i]) < vocabulary_size) continue;
    return Refusal{.message = "Token ids must be in [0, " + std::to_string(vocabulary_size) + "); got " +
                              std::to_string(ids[i]) + " at position " + std::to_string(i) + ".",
                   .field = field};
  }
  return std::nullopt;
}

// `length`: "the prompt has …".
Refusal too_long(const ServingLimits& limits, const std::string& length) {
  return {.is_too_long = true,
          .message = describe_limit(limits) + ", of which one is for the answer; the prompt has " + length +
                     " tokens.",
          .field = "prompt"};
}

}  // namespace

std::uint64_t ServingLimits::max_drawn(std::size_t num_prompt,
                                       std::optional<std::uint32_t> max_tokens) const {
  const std::uint64_t longest = longest_sequence();
  const std::uint64_t room = longest - std::min<std::uint64_t>(longest, num_prompt);
  return std::min<std::uint64_t>(max_tokens.value_or(UINT32_MAX), room);
}

std::optional<std::uint32_t> max_prompt_tokens(const ServingLimits& limits) {
  if (limits.longest_sequence() == 0) return std::nullopt;
  return limits.longest_sequence() - 1;
}

Refusal refuse_longer_prompt(const ServingLimits& limits) {
  return too_long(limits, "more than " + std::to_string(max_prompt_tokens(limits).value_or(0)));
}

std::optional<Refusal> check_input(std::span<const std::int32_t> tokens, const ServingLimits& limits) {
  if (tokens.empty())
    return Refusal{.message = "The input is empty; at least one token is needed.", .field = "input"};
  if (tokens.size() > limits.context_length)
    return Refusal{.is_too_long = true,
                   .message = "This model's inputs have at most " + std::to_string(limits.context_length) +
                              " tokens; this one has " + std::to_string(tokens.size()) + ".",
                   .field = "input"};
  return check_ids(tokens, limits.vocabulary_size, "input");
}

std::variant<std::uint32_t, Refusal> check_admission(const AdmissionQuestion& question,
                                                     const ServingLimits& limits) {
  const std::uint64_t num_prompt = question.prompt.size();
  const std::uint32_t longest = limits.longest_sequence();
  if (num_prompt == 0)
    return Refusal{.message = "The prompt is empty; at least one token is needed.", .field = "prompt"};
  if (num_prompt >= longest) return too_long(limits, std::to_string(num_prompt));
  // More than there is room for is no error: it is what people write for "all".
  const std::uint64_t max_tokens = limits.max_drawn(num_prompt, question.max_tokens);
  if (question.min_tokens > max_tokens)
    return Refusal{.message = "min_tokens must not be more than max_tokens, here " +
                              std::to_string(max_tokens) + "; got " + std::to_string(question.min_tokens) +
                              ".",
                   .field = "min_tokens"};
  if (auto refusal = check_ids(question.prompt, limits.vocabulary_size, "prompt")) return *refusal;
  if (auto refusal = check_ids(question.stop_token_ids, limits.vocabulary_size, "stop_token_ids"))
    return *refusal;
  if (auto refusal = check_ids(question.biased_ids, limits.vocabulary_size, "logit_bias")) return *refusal;
  return static_cast<std::uint32_t>(num_prompt + max_tokens);
}

}  // namespace troupe
