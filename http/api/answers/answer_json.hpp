// SPDX-License-Identifier: Apache-2.0
// JSON of an answer that may be long. Short texts and lists are
// written at once; long ones are only noted, and written piece by piece as the
// client takes them. A stream's memory is bounded however long its answer is.
// Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "http/api/answers/logprobs_json.hpp"
#include "http/api/answers/vectors/class_json.hpp"
#include "http/api/answers/vectors/embedding_json.hpp"
#include "http/api/requests/openai_api.hpp"

namespace troupe {

// JSON with gaps where long texts and lists belong. Copyable: a copy starts
// where the original stands.
class LongAnswer {
 public:
  struct Tokens {
    std::span<const AnswerToken> tokens;
    LogprobsList list = LogprobsList::kContent;
  };
  struct Raw {
    std::string_view json;
  };
  struct Gap {
    std::size_t at = 0;  // in the bytes around the gaps
    // A JSON string or list, or JSON as it is.
    std::variant<std::string_view, Tokens, EmbeddingView, Raw, ClassView> content;
  };

  // owner keeps alive what the gaps refer to.
  LongAnswer(std::string bytes, std::vector<Gap> gaps, std::shared_ptr<const void> owner);

  // Appends the next piece, of about this many bytes. False: it was the last.
  bool append_some(std::string& out, std::size_t num_bytes);
  // Bytes that are still to come, counted by writing them once.
  std::uint64_t num_left() const;

 private:
  void append_of_gap(std::string& out, std::size_t num_bytes);
  void end_gap();
  void append_text(std::string& out, std::string_view text, std::size_t num_bytes);
  void append_element(std::string& out, const Gap& gap);

  std::string bytes_;
  std::vector<Gap> gaps_;
  std::shared_ptr<const void> owner_;
  std::size_t num_taken_ = 0;   // of bytes_
  std::size_t gap_ = 0;         // the next one
  std::size_t num_of_gap_ = 0;  // bytes of its text or elements of its list that are written
};

// Writes JSON to the end of a string and notes what is long. If it has gaps at
// the end, they are to be taken.
class AnswerJson {
 public:
  enum class Long : std::uint8_t { kLater, kAtOnce };  // kAtOnce: no gaps

  explicit AnswerJson(std::string& out, Long when = Long::kLater)
      : out_(out), start_(out.size()), when_(when) {}

  static bool is_long(std::string_view text, std::span<const AnswerToken> tokens);

  // Any part of it.
  static bool is_long(const TextDelta& delta);

  std::string& out() { return out_; }
  // As a JSON string.
  void text(std::string_view text);
  void logprobs(ResponseShape shape, std::span<const AnswerToken> tokens);
  // As vLLM has them: a list, in which each token's alternatives are by id.
  void prompt_logprobs(std::span<const AnswerToken> tokens);
  void embeddings(const EmbeddingView& view);
  // num_numbers: of all views of the answer; many short lists are long as well.
  void classes(const ClassView& view, std::size_t num_numbers);
  // JSON that is there already.
  void raw(std::string_view json);

  bool has_gaps() const { return !gaps_.empty(); }
  // Takes all that was written here from the string.
  LongAnswer take(std::shared_ptr<const void> owner);

 private:
  std::string& out_;
  const std::size_t start_;
  const Long when_;
  std::vector<LongAnswer::Gap> gaps_;
};

}  // namespace troupe
