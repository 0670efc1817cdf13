// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/contents/question_content.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "loadgen/workload/random_source.hpp"
#include "loadgen/workload/token_estimate.hpp"
#include "loadgen/workload/traces/json_list_reader.hpp"
#include "loadgen/workload/traces/json_values.hpp"

namespace troupe::loadgen {
namespace {

using RolesAndTexts = std::vector<std::pair<std::string, std::string>>;

RolesAndTexts read_messages(const JsonFields& question) {
  RolesAndTexts messages;
  const auto place = question.where() + ": 'messages'";
  for (const auto& element : question.array("messages")) {
    const JsonFields message(element, place);
    messages.emplace_back(message.text("role"), message.text("content"));
  }
  return messages;
}

[[noreturn]] void refuse_messages(const JsonFields& question, const std::string& what) {
  throw std::runtime_error(question.where() + ": 'messages': expected " + what);
}

// [system] user (assistant user)*
std::vector<PlannedTurn> read_turns(const JsonFields& fields, std::string& system_text) {
  auto messages = read_messages(fields);
  std::size_t next = 0;
  if (!messages.empty() && messages.front().first == "system")
    system_text = std::move(messages[next++].second);
  std::vector<PlannedTurn> turns;
  for (; next < messages.size(); ++next) {
    auto& [role, text] = messages[next];
    const bool is_users_turn = turns.empty() || !turns.back().answer.empty();
    if (role != (is_users_turn ? "user" : "assistant") || text.empty())
      refuse_messages(fields, "a text of " + std::string(is_users_turn ? "user" : "assistant") +
                                  " as number " + std::to_string(next + 1) + ", got one of '" + role + "'");
    if (is_users_turn)
      turns.push_back({.prompt_tokens = estimated_tokens(text), .text = std::move(text), .answer = {}});
    else
      turns.back().answer = std::move(text);
  }
  if (turns.empty() || !turns.back().answer.empty()) refuse_messages(fields, "the user to speak last");
  turns.back().answer = fields.text("expected");
  if (turns.back().answer.empty())
    throw std::runtime_error(fields.where() + ": 'expected': expected a text, got none");
  if (fields.has("expected_tokens")) turns.back().answer_tokens = count_in(fields, "expected_tokens");
  return turns;
}

// Fisher and Yates.
void shuffle(std::vector<std::size_t>& order, RandomSource random) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
}

std::string shown(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

QuestionContent::QuestionContent(const ClassSettings& settings, std::uint64_t seed)
    : think_time_s_(settings.think_time_s), seed_(seed) {
  JsonListReader objects(open_trace_input(settings.questions_file));
  std::set<std::string> categories;
  std::string text;
  while (objects.next(text)) {
    const auto parsed = parse_json(text, objects.place());
    const JsonFields fields(parsed, objects.place());
    const auto category = text_or_empty(fields, "category");
    categories.insert(category);
    Question question;
    question.turns = read_turns(fields, question.system_text);
    const auto& wanted = settings.categories;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), category) != wanted.end())
      questions_.push_back(std::move(question));
  }
  if (categories.empty()) objects.fail("expected a list of questions, got an empty one");
  for (const auto& wanted : settings.categories)
    if (!categories.contains(wanted))
      throw std::runtime_error(settings.questions_file + ": expected a category among " + shown(categories) +
                               ", got '" + wanted + "'");
  order_.resize(questions_.size());
}

bool QuestionContent::fill(std::uint64_t number, PlannedConversation& conversation) {
  const auto place = num_asked_ % order_.size();
  if (place == 0) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    shuffle(order_, RandomSource(seed_, RandomStream::kQuestion, num_asked_ / order_.size()));
  }
  ++num_asked_;
  const auto& question = questions_[order_[place]];
  conversation.system_text = question.system_text;
  conversation.prefix.clear();
  conversation.turns = question.turns;
  RandomSource random(seed_, RandomStream::kThinkTime, number);
  for (std::size_t i = 1; i < conversation.turns.size(); ++i)
    conversation.turns[i].think_time = seconds_to_nanoseconds(think_time_s_.sample(random));
  return true;
}

}  // namespace troupe::loadgen
