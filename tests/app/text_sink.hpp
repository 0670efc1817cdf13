// SPDX-License-Identifier: Apache-2.0
// Collects an answer's text, for a test thread that waits for its end.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <variant>

#include "actors/engine.hpp"

namespace troupe {

class TextSink final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<TextDelta>(&event)) add(*delta);
    if (const auto* failed = std::get_if<Failed>(&event)) text_ += "FAILED: " + failed->error.message;
    has_ended_ = has_ended_ || is_terminal(event);
    if (has_ended_) ended_.notify_all();
  }
  std::size_t pending_bytes() const noexcept override { return 0; }
  std::string wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return has_ended_; });
    return text_;
  }
  // To the last bit, if they were asked for; after the end.
  const std::string& logprobs() const { return logprobs_; }

 private:
  void add(const TextDelta& delta) {
    text_ += delta.text;
    for (const AnswerToken& token : delta.tokens) {
      add(token.token);
      for (const LikelyToken& likely : token.top) add(likely);
    }
  }
  void add(const LikelyToken& likely) {
    std::array<char, 64> digits;
    std::snprintf(digits.data(), digits.size(), " %a", static_cast<double>(likely.logprob));
    logprobs_ += likely.text + digits.data();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::string text_;
  std::string logprobs_;
};

}  // namespace troupe
