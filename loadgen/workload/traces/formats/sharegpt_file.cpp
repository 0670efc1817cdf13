// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/sharegpt_file.hpp"

#include <algorithm>
#include <utility>

#include "loadgen/workload/token_estimate.hpp"
#include "loadgen/workload/traces/json_list_reader.hpp"
#include "loadgen/workload/traces/json_values.hpp"

namespace troupe::loadgen {
namespace {

struct Message {
  bool is_human = false;
  std::string text;
};

class ShareGptFile final : public ConversationSource {
 public:
  ShareGptFile(TraceInput input, ShareGptOptions options)
      : name_(input.name()), objects_(std::move(input)), options_(options) {}

  bool next(PlannedConversation& conversation) override {
    while (objects_.next(object_)) {
      ++num_read_;
      if (read_object(conversation)) return true;
      ++num_left_out_;
    }
    if (num_read_ == 0) objects_.fail("expected a list of conversations, got an empty one");
    return false;
  }

  std::vector<std::string> warnings() const override {
    std::vector<std::string> warnings = {name_ + ": lengths are estimated from words"};
    if (num_left_out_ > 0)
      warnings.push_back(name_ + ": left out " + std::to_string(num_left_out_) + " of " +
                         std::to_string(num_read_) +
                         " conversations without a usable first question and reply");
    return warnings;
  }

 private:
  bool read_object(PlannedConversation& conversation);
  std::vector<Message> read_messages() const;
  bool is_usual(const PlannedTurn& turn) const;

  std::string name_;
  JsonListReader objects_;
  ShareGptOptions options_;
  std::string object_;
  std::uint64_t num_read_ = 0;
  std::uint64_t num_left_out_ = 0;
};

// Who speaks under which name in the files there are.
bool is_human(const std::string& from) { return from == "human" || from == "user"; }
bool is_model(const std::string& from) {
  return from == "gpt" || from == "chatgpt" || from == "assistant" || from == "bard" || from == "bing";
}

bool ShareGptFile::read_object(PlannedConversation& conversation) {
  auto messages = read_messages();
  conversation.start = {};
  conversation.system_text.clear();
  conversation.prefix.clear();
  conversation.turns.clear();
  for (std::size_t i = 0; i + 1 < messages.size(); i += 2) {
    if (!messages[i].is_human || messages[i + 1].is_human || messages[i].text.empty()) break;
    auto& turn = conversation.turns.emplace_back();
    turn.prompt_tokens = estimated_tokens(messages[i].text);
    turn.output_tokens = std::max(1U, estimated_tokens(messages[i + 1].text));
    if (options_.keeps_text) turn.text = std::move(messages[i].text);
  }
  return !conversation.turns.empty() &&
         (!options_.only_usual_lengths || is_usual(conversation.turns.front()));
}

std::vector<Message> ShareGptFile::read_messages() const {
  std::vector<Message> messages;
  const auto parsed = parse_json(object_, objects_.place());
  const auto place = objects_.place() + ": 'conversations'";
  for (const auto& element : JsonFields(parsed, objects_.place()).array("conversations")) {
    const JsonFields message(element, place);
    const auto from = message.text("from");
    if (!is_human(from) && !is_model(from)) continue;  // "system" and tools
    messages.push_back({.is_human = is_human(from), .text = message.text("value")});
  }
  return messages;
}

bool ShareGptFile::is_usual(const PlannedTurn& turn) const {
  return turn.prompt_tokens >= 4 && turn.output_tokens >= 4 && turn.prompt_tokens <= 1024 &&
         turn.prompt_tokens + turn.output_tokens <= 2048;
}

}  // namespace

std::unique_ptr<ConversationSource> read_sharegpt_file(TraceInput input, ShareGptOptions options) {
  return std::make_unique<ShareGptFile>(std::move(input), options);
}

}  // namespace troupe::loadgen
