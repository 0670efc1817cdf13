// SPDX-License-Identifier: Apache-2.0
#include "tests/support/http/chat.hpp"

#include <stdexcept>

#include "tests/support/http/http_client.hpp"

namespace troupe::test {

using nlohmann::json;

json user_message(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
json assistant_message(const std::string& text) { return {{"role", "assistant"}, {"content", text}}; }
json user_asks(const std::string& text) { return json::array({user_message(text)}); }

json chat(std::uint16_t port, const json& messages, int max_tokens) {
  const json body = {{"messages", messages}, {"temperature", 0}, {"max_tokens", max_tokens}};
  const auto answer = http_post(port, "/v1/chat/completions", body.dump());
  if (answer.status != 200)
    throw std::runtime_error("status " + std::to_string(answer.status) + ": " + answer.body);
  return json::parse(answer.body);
}

std::string content_of(const json& answer) { return answer.at("choices").at(0).at("message").at("content"); }

json Conversation::say(std::uint16_t port, const std::string& text) {
  messages_.push_back(user_message(text));
  json answer = chat(port, messages_, max_tokens_);
  messages_.push_back(answer.at("choices").at(0).at("message"));
  num_tokens_ = answer.at("usage").at("total_tokens");
  return answer;
}

}  // namespace troupe::test
