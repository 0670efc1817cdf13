// SPDX-License-Identifier: Apache-2.0
// Chats with a running server, at temperature 0.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::test {

nlohmann::json user_message(const std::string& text);
nlohmann::json assistant_message(const std::string& text);
// The messages of a conversation that begins with it.
nlohmann::json user_asks(const std::string& text);

// The whole answer. Throws std::runtime_error with what came if its status is not 200.
nlohmann::json chat(std::uint16_t port, const nlohmann::json& messages, int max_tokens = 800);
std::string content_of(const nlohmann::json& answer);

// A user's messages and the answers to them, whichever server gave them.
class Conversation {
 public:
  explicit Conversation(int max_tokens = 400) : max_tokens_(max_tokens) {}
  // The whole answer, which is part of what is sent next time.
  nlohmann::json say(std::uint16_t port, const std::string& text);
  // Of all that was said, answers included.
  int num_tokens() const { return num_tokens_; }

 private:
  int max_tokens_;
  int num_tokens_ = 0;
  nlohmann::json messages_ = nlohmann::json::array();
};

}  // namespace troupe::test
