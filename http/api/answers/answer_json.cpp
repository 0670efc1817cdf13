// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/answer_json.hpp"

#include <algorithm>
#include <utility>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t kLongText = 16 * 1024;  // bytes
constexpr std::size_t kManyTokens = 32;       // 1.6 KB each with 20 alternatives
constexpr std::size_t kManyNumbers = 2048;    // 12 bytes each
constexpr std::size_t kCountedAtOnce = 64 * 1024;

// Bytes or elements.
std::size_t size_of(const LongAnswer::Gap& gap) {
  if (const auto* text = std::get_if<std::string_view>(&gap.content)) return text->size();
  if (const auto* tokens = std::get_if<LongAnswer::Tokens>(&gap.content)) return tokens->tokens.size();
  if (const auto* raw = std::get_if<LongAnswer::Raw>(&gap.content)) return raw->json.size();
  if (const auto* classes = std::get_if<ClassView>(&gap.content)) return classes->num_vectors();
  return std::get<EmbeddingView>(gap.content).num_vectors();
}

}  // namespace

LongAnswer::LongAnswer(std::string bytes, std::vector<Gap> gaps, std::shared_ptr<const void> owner)
    : bytes_(std::move(bytes)), gaps_(std::move(gaps)), owner_(std::move(owner)) {}

bool LongAnswer::append_some(std::string& out, std::size_t num_bytes) {
  const std::size_t enough = out.size() + num_bytes;
  while (out.size() < enough) {
    const std::size_t end = gap_ < gaps_.size() ? gaps_[gap_].at : bytes_.size();
    if (num_taken_ < end) {
      const std::size_t num = std::min(end - num_taken_, enough - out.size());
      out.append(bytes_, num_taken_, num);
      num_taken_ += num;
    } else if (gap_ < gaps_.size()) {
      append_of_gap(out, enough - out.size());
    } else {
      break;
    }
  }
  return num_taken_ < bytes_.size() || gap_ < gaps_.size();
}

void LongAnswer::append_of_gap(std::string& out, std::size_t num_bytes) {
  const Gap& gap = gaps_[gap_];
  if (const auto* raw = std::get_if<Raw>(&gap.content)) {
    const std::string_view piece = raw->json.substr(num_of_gap_, num_bytes);
    out += piece;
    num_of_gap_ += piece.size();
    if (num_of_gap_ == raw->json.size()) end_gap();
    return;
  }
  const auto* text = std::get_if<std::string_view>(&gap.content);
  if (num_of_gap_ == 0) out += text != nullptr ? '"' : '[';
  if (text != nullptr) {
    append_text(out, *text, num_bytes);
  } else {
    append_element(out, gap);
  }
  if (num_of_gap_ < size_of(gap)) return;
  out += text != nullptr ? '"' : ']';
  end_gap();
}

void LongAnswer::end_gap() {
  ++gap_;
  num_of_gap_ = 0;
}

void LongAnswer::append_text(std::string& out, std::string_view text, std::size_t num_bytes) {
  const std::string_view piece = text.substr(num_of_gap_, num_bytes);
  append_json_escaped(out, piece);
  num_of_gap_ += piece.size();
}

void LongAnswer::append_element(std::string& out, const Gap& gap) {
  if (num_of_gap_ > 0) out += ',';
  const std::size_t element = num_of_gap_++;
  if (const auto* list = std::get_if<Tokens>(&gap.content))
    return append_logprobs_element(out, list->list, list->tokens[element]);
  if (const auto* classes = std::get_if<ClassView>(&gap.content)) return append_class(out, *classes, element);
  append_embedding(out, std::get<EmbeddingView>(gap.content), element);
}

std::uint64_t LongAnswer::num_left() const {
  LongAnswer copy = *this;
  std::string piece;
  std::uint64_t num = 0;
  for (bool is_more = true; is_more;) {
    piece.clear();
    is_more = copy.append_some(piece, kCountedAtOnce);
    num += piece.size();
  }
  return num;
}

bool AnswerJson::is_long(std::string_view text, std::span<const AnswerToken> tokens) {
  return text.size() >= kLongText || tokens.size() >= kManyTokens;
}

bool AnswerJson::is_long(const TextDelta& delta) {
  return is_long(delta.text, delta.tokens) || is_long(delta.reasoning, {}) ||
         std::any_of(delta.calls.begin(), delta.calls.end(),
                     [](const CallDelta& call) { return is_long(call.arguments, {}); });
}

void AnswerJson::text(std::string_view text) {
  if (when_ == Long::kAtOnce || !is_long(text, {})) return append_json_string(out_, text);
  gaps_.push_back({.at = out_.size() - start_, .content = text});
}

void AnswerJson::logprobs(ResponseShape shape, std::span<const AnswerToken> tokens) {
  if (when_ == Long::kAtOnce || !is_long({}, tokens)) return append_logprobs(out_, shape, tokens);
  const LogprobsLayout layout = logprobs_layout(shape);
  for (const auto& [before, list] : layout.lists) {
    out_ += before;
    gaps_.push_back({.at = out_.size() - start_, .content = LongAnswer::Tokens{tokens, list}});
  }
  out_ += layout.end;
}

void AnswerJson::prompt_logprobs(std::span<const AnswerToken> tokens) {
  if (when_ == Long::kAtOnce || !is_long({}, tokens)) return append_prompt_logprobs(out_, tokens);
  gaps_.push_back(
      {.at = out_.size() - start_, .content = LongAnswer::Tokens{tokens, LogprobsList::kPromptTokens}});
}

void AnswerJson::raw(std::string_view json) {
  if (when_ == Long::kAtOnce || !is_long(json, {})) {
    out_ += json;
    return;
  }
  gaps_.push_back({.at = out_.size() - start_, .content = LongAnswer::Raw{json}});
}

void AnswerJson::embeddings(const EmbeddingView& view) {
  const std::size_t num_vectors = view.num_vectors();
  if (when_ == Long::kLater && num_vectors * view.dimensions >= kManyNumbers) {
    gaps_.push_back({.at = out_.size() - start_, .content = view});
    return;
  }
  out_ += '[';
  for (std::size_t i = 0; i < num_vectors; ++i) {
    if (i > 0) out_ += ',';
    append_embedding(out_, view, i);
  }
  out_ += ']';
}

void AnswerJson::classes(const ClassView& view, std::size_t num_numbers) {
  const std::size_t num_vectors = view.num_vectors();
  if (when_ == Long::kLater && num_vectors > 0 && num_numbers >= kManyNumbers) {
    gaps_.push_back({.at = out_.size() - start_, .content = view});
    return;
  }
  out_ += '[';
  for (std::size_t i = 0; i < num_vectors; ++i) {
    if (i > 0) out_ += ',';
    append_class(out_, view, i);
  }
  out_ += ']';
}

LongAnswer AnswerJson::take(std::shared_ptr<const void> owner) {
  std::string bytes = out_.substr(start_);
  out_.resize(start_);
  return {std::move(bytes), std::exchange(gaps_, {}), std::move(owner)};
}

}  // namespace troupe
