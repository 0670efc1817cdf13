// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/expected_answer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/batch_builder.hpp"
#include "tests/actors/byte_tokenizer.hpp"
#include "tests/simulation/expected_calls.hpp"
#include "tests/simulation/sim_device.hpp"

namespace troupe::sim {
namespace {

bool contains(const std::vector<std::int32_t>& tokens, std::int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// The longest stop string that ends where the text ends; text from
// `first_byte` on counts.
std::optional<std::string> stop_at_end(const std::string& text, std::size_t first_byte,
                                       const std::vector<std::string>& stops) {
  std::optional<std::string> found;
  for (const auto& stop : stops)
    if (text.size() - first_byte >= stop.size() && text.ends_with(stop) &&
        (!found || stop.size() > found->size()))
      found = stop;
  return found;
}

std::uint32_t longest_sequence(const DeviceDescription& device) {
  return std::min(device.context_length, device.num_pages * device.page_size);
}

SimCounts penalized_at_first(const GenerationRequest& request, const std::vector<std::int32_t>& prompt) {
  SimCounts counts;
  if (request.sampling.repetition_penalty == 1.0F) return counts;
  for (const std::int32_t token : prompt) counts.emplace(token, 0);
  return counts;
}

// A stop string that was cut off takes along the tokens that begin in it.
void drop_tokens_behind_text(ExpectedAnswer& answer) {
  std::erase_if(answer.tokens, [&](const ExpectedToken& token) { return token.begin >= answer.text.size(); });
}

// The mask of sim_form(): by turns a letter of the alphabet's first half and one of its second.
TokenMask allowed_at(std::uint32_t position) {
  TokenMask mask(mask_words(ByteTokenizer::kVocabularySize));
  const int first = position % 2 == 0 ? 'a' : 'n';
  for (int letter = first; letter < first + 13; ++letter)
    mask[static_cast<std::size_t>(letter) / 32] |= 1U << (letter % 32);
  return mask;
}

std::uint32_t length_of(const OutputForm& form) {
  return 2 * static_cast<std::uint32_t>(std::stoul(form.text.substr(form.text.find('{') + 1)));
}

}  // namespace

OutputForm sim_form(std::uint32_t num_pairs) {
  return {.kind = OutputForm::Kind::kRegex,
          .text = "([a-m][n-z]){" + std::to_string(num_pairs) + "}",
          .field = "regex"};
}

namespace {

ExpectedAnswer expected_text(const GenerationRequest& request, const DeviceDescription& device) {
  std::vector<std::int32_t> tokens;
  ExpectedAnswer answer;
  std::optional<ExpectedCalls> calls;
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
    tokens = ByteTokenizer().encode(chat->messages.front().content);
    calls.emplace(request.stop_token_ids);
  } else if (const auto* text = std::get_if<TextPrompt>(&request.prompt)) {
    tokens = ByteTokenizer().encode(text->text);
  } else {
    tokens = std::get<TokenPrompt>(request.prompt).tokens;
  }
  if (request.echo) answer.text = ByteTokenizer().decode(tokens);
  if (request.scores_echo())
    for (std::size_t i = 0; i < tokens.size(); ++i)
      answer.tokens.push_back({tokens[i], ByteTokenizer().decode({tokens.data(), i}).size(), i});
  const std::uint32_t room = longest_sequence(device) - static_cast<std::uint32_t>(tokens.size());
  const std::uint32_t max_tokens = std::min(request.max_tokens.value_or(room), room);
  std::vector<std::int32_t> suppressed = request.stop_token_ids;
  suppressed.push_back(ByteTokenizer::kEos);
  std::size_t first_matched_byte = answer.text.size();
  SimCounts penalized = penalized_at_first(request, tokens);

  while (true) {
    if (answer.completion_tokens == max_tokens) {
      answer.reason = FinishReason::kLength;
      return answer;
    }
    const bool is_early = answer.completion_tokens < request.min_tokens;
    const auto draw = [&](const TokenMask& mask, bool again) {
      return sim_token(tokens, request.sampling.seed ^ (again ? kSeedOfSecondDraws : 0),
                       is_early ? suppressed : std::vector<std::int32_t>{}, penalized, mask);
    };
    const std::int32_t token =
        calls ? calls->next(draw)
              : draw(request.form ? allowed_at(answer.completion_tokens) : TokenMask{}, false);
    if (request.sampling.has_penalties()) penalized[token] += 1;
    tokens.push_back(token);
    answer.completion_tokens += 1;
    const bool is_stop_token = contains(request.stop_token_ids, token);
    const bool is_end = is_stop_token || (token == ByteTokenizer::kEos && !request.ignore_eos);
    if (!is_end || request.scores_echo() || (is_stop_token && request.include_stop_in_output))
      answer.tokens.push_back({token, answer.text.size(), tokens.size() - 1});
    if (token != ByteTokenizer::kEos && (!is_end || request.include_stop_in_output))
      answer.text += static_cast<char>(token);
    if (answer.completion_tokens < request.min_tokens) {
      first_matched_byte = answer.text.size();
    } else if (const auto stop = stop_at_end(answer.text, first_matched_byte, request.stop);
               stop && token != ByteTokenizer::kEos && (!is_end || request.include_stop_in_output)) {
      answer.stop_string = stop;
      if (!request.include_stop_in_output) answer.text.resize(answer.text.size() - stop->size());
      drop_tokens_behind_text(answer);
      return answer;
    }
    const bool has_form = request.form && answer.completion_tokens == length_of(*request.form);
    if (!is_end && has_form) return answer;
    if (calls && !is_end) calls->take(token);
    if (!is_end) continue;
    if (is_stop_token) answer.stop_token = token;
    return answer;
  }
}

}  // namespace

ExpectedAnswer expected_answer(const GenerationRequest& request, const DeviceDescription& device) {
  ExpectedAnswer answer = expected_text(request, device);
  if (!std::holds_alternative<ChatPrompt>(request.prompt)) return answer;
  SplitAnswer split = split_answer(answer.text, answer.reason == FinishReason::kLength);
  answer.text = std::move(split.text);
  answer.calls = std::move(split.calls);
  answer.tokens.clear();
  return answer;
}

}  // namespace troupe::sim
