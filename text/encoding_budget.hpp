// SPDX-License-Identifier: Apache-2.0
// Bounds the encoding of one prompt and lets it be interrupted. Templates,
// normalizers, patterns and merges spend steps here while they work; a step is
// about one byte looked at or one pair merged. EncodingStopped ends the encoding
// from wherever it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

enum class EncodingStop : std::uint8_t {
  kInterrupted,    // the caller said so
  kTooManyTokens,  // more than max_tokens
  kTooMuchWork,    // more steps or more text than the tokenizer's input allows
};

class EncodingStopped : public std::runtime_error {
 public:
  EncodingStopped(EncodingStop reason, const std::string& sentence)
      : std::runtime_error(sentence), reason_(reason) {}

  EncodingStop reason() const { return reason_; }

 private:
  EncodingStop reason_;
};

// One thread at a time.
class EncodingBudget {
 public:
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
  // Between two questions to `is_interrupted`: well below a millisecond of work.
  static constexpr std::size_t kStepsAQuestion = 16 * 1024;
  // Steps that a tokenizer may spend on a text.
  static constexpr std::size_t kStepsAByte = 256;
  static constexpr std::size_t kFreeSteps = 4'000'000;

  // is_interrupted: asked now and then; true ends the encoding. May be empty.
  explicit EncodingBudget(std::size_t max_tokens = kUnlimited, std::function<bool()> is_interrupted = {})
      : max_tokens_(max_tokens), is_interrupted_(std::move(is_interrupted)) {}

  // A text of this size is about to be tokenized.
  void begin_text(std::size_t bytes);
  void spend(std::size_t steps) {
    num_steps_ += steps;
    if (num_steps_ >= next_check_) check();
  }
  // Asks whether to go on at all.
  void ask() const;

  // The prompt has num_others tokens besides those of the text being encoded, of
  // which num_cut_off will not be in it.
  void set_other_tokens(std::size_t num_others, std::size_t num_cut_off = 0) {
    num_other_tokens_ = num_others;
    num_cut_off_ = num_cut_off;
  }
  // The text has at least so many.
  void check_tokens(std::size_t count) const {
    const std::size_t num_kept = count - std::min(count, num_cut_off_);
    if (num_kept > max_tokens_ || num_other_tokens_ > max_tokens_ - num_kept) refuse_tokens();
  }

  std::size_t num_steps() const { return num_steps_; }

 private:
  void check();
  [[noreturn]] void refuse_tokens() const;

  std::size_t max_tokens_;
  std::function<bool()> is_interrupted_;
  std::size_t num_other_tokens_ = 0, num_cut_off_ = 0;
  std::size_t num_steps_ = 0;
  std::size_t next_check_ = kStepsAQuestion;
  std::size_t max_steps_ = kUnlimited;
};

}  // namespace troupe
