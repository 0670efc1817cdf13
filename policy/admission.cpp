// SPDX-License-Identifier: Apache-2.0
#include "policy/admission.hpp"

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
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<std::uint32_t>(ids[i]) < vocabulary_size) continue;
    return Refusal{.message = "Token ids must be in [0, " + std::to_string(vocabulary_size) + "); got " +
                              std::to_string(ids[i]) + " at position " + std::to_string(i) + ".",
                   .field = field};
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::uint32_t, Refusal> check_admission(const AdmissionQuestion& question,
                                                     const ServingLimits& limits) {
  const std::uint64_t num_prompt = question.prompt.size();
  const std::uint32_t longest = limits.longest_sequence();
  if (num_prompt == 0)
    return Refusal{.message = "The prompt is empty; at least one token is needed.", .field = "prompt"};
  if (num_prompt >= longest)
    return Refusal{.is_too_long = true,
                   .message = describe_limit(limits) +
                              ", of which one is for the answer; the "
                              "prompt has " +
                              std::to_string(num_prompt) + " tokens.",
                   .field = "prompt"};
  const std::uint64_t max_tokens = question.max_tokens.value_or(longest - num_prompt);
  if (num_prompt + max_tokens > longest)
    return Refusal{.is_too_long = true,
                   .message = describe_limit(limits) + "; " + std::to_string(num_prompt + max_tokens) +
                              " were requested (" + std::to_string(num_prompt) + " in the prompt, " +
                              std::to_string(max_tokens) + " for the answer).",
                   .field = "max_tokens"};
  if (question.min_tokens > max_tokens)
    return Refusal{.message = "min_tokens must not be more than max_tokens, here " +
                              std::to_string(max_tokens) + "; got " + std::to_string(question.min_tokens) +
                              ".",
                   .field = "min_tokens"};
  if (auto refusal = check_ids(question.prompt, limits.vocabulary_size, "prompt")) return *refusal;
  if (auto refusal = check_ids(question.stop_token_ids, limits.vocabulary_size, "stop_token_ids"))
    return *refusal;
  return static_cast<std::uint32_t>(num_prompt + max_tokens);
}

}  // namespace troupe
