// SPDX-License-Identifier: Apache-2.0
#include "text/answer/call_grammar.hpp"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/json_text.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kMaxSpace = 2;  // between the parts of a call: a line's end, an indent

struct Tool {
  std::string name;
  std::string schema;  // JSON
  bool is_strict = false;
};

std::vector<Tool> demanded_tools(std::string_view tools, const std::string& name) {
  std::vector<Tool> out;
  for (const Json& tool : Json::parse(tools)) {
    const Json& function = tool.at("function");
    if (!name.empty() && function.at("name") != name) continue;
    const bool is_strict = function.contains("strict") && function.at("strict") == true;
    out.push_back({function.at("name"), function.at("parameters").dump(), is_strict});
  }
  if (out.empty())
    throw GrammarError(name.empty() ? "there are no tools" : "there is no tool \"" + name + "\"");
  return out;
}

class CallGrammar {
 public:
  CallGrammar(const AnswerReading& reading, const Tokenizer& tokenizer)
      : reading_(reading), format_(*reading.format.calls), tokenizer_(tokenizer), json_(builder_) {}

  Grammar of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto calls = format_.is_list ? list_of(tools, is_for_one) : calls_of(tools, is_for_one);
    return builder_.build(
        builder_.sequence({reasoning(), marker(format_.section_begin), calls, marker(format_.section_end)}));
  }

 private:
  GrammarExpression calls_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto one =
        builder_.sequence({marker(format_.call_begin), any_call(tools), space(), marker(format_.call_end)});
    if (is_for_one) return one;
    return builder_.sequence({one, builder_.repeat(builder_.sequence({space(), one}), 0, kUnboundedCount)});
  }

  GrammarExpression list_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto one = any_call(tools);
    const auto further =
        builder_.repeat(builder_.sequence({json_.comma(), one}), 0, is_for_one ? 0 : kUnboundedCount);
    return builder_.sequence({marker(format_.call_begin), builder_.text("["), one, further,
                              builder_.text("]"), marker(format_.call_end)});
  }

  GrammarExpression any_call(const std::vector<Tool>& tools) {
    std::vector<GrammarExpression> calls;
    for (const Tool& tool : tools) calls.push_back(call_of(tool));
    return builder_.any_of(std::move(calls));
  }

  GrammarExpression call_of(const Tool& tool) {
    const auto arguments = arguments_of(tool);
    if (format_.style == CallStyle::kNamedJson)
      return builder_.sequence({builder_.text(tool.name), marker(format_.name_end), arguments});
    if (format_.name_key.empty())
      return json_.enclosed("{", json_.pair(std::string_view(tool.name), arguments), "}");
    const auto name = json_.pair(std::string_view(format_.name_key), builder_.text("\"" + tool.name + "\""));
    const auto of_arguments = json_.pair(std::string_view(format_.arguments_key), arguments);
    return json_.enclosed("{", builder_.sequence({name, json_.comma(), of_arguments}), "}");
  }

  GrammarExpression arguments_of(const Tool& tool) {
    try {
      GrammarBuilder trial;
      trial.build(json_schema_expression(trial, tool.schema));
    } catch (const GrammarError& error) {
      if (tool.is_strict) throw GrammarError("the parameters of \"" + tool.name + "\": " + error.what());
      return json_.any_object();
    }
    return json_schema_expression(builder_, tool.schema);
  }

  GrammarExpression reasoning() {
    const ReasoningFormat& format = reading_.format.reasoning;
    if (!format.exists()) return builder_.empty();
    const auto thought = builder_.sequence(
        {builder_.repeat(builder_.byte_between(0, 255), 0, kUnboundedCount), marker(format.end)});
    if (reading_.begins_in_reasoning) return thought;
    if (format.begin.empty()) return builder_.empty();
    return builder_.optional(builder_.sequence({marker(format.begin), thought}));
  }

  GrammarExpression space() {
    ByteSet white;
    for (const char byte : {' ', '\n'}) white.set(static_cast<unsigned char>(byte));
    return builder_.repeat(builder_.byte_of(white), 0, kMaxSpace);
  }

  // As text, but for the special tokens in it, and space behind it.
  GrammarExpression marker(std::string_view text) {
    if (text.empty()) return builder_.empty();
    std::vector<GrammarExpression> parts;
    for (const TokenId token : tokenizer_.encode_with_specials(text)) {
      if (!tokenizer_.is_special(token)) continue;
      const auto content = tokenizer_.token_content(token);
      const auto at = text.find(content);
      if (at == std::string_view::npos) continue;
      if (at > 0) parts.push_back(builder_.text(text.substr(0, at)));
      parts.push_back(builder_.token(token));
      text.remove_prefix(at + content.size());
    }
    if (!text.empty()) parts.push_back(builder_.text(text));
    parts.push_back(space());
    return builder_.sequence(std::move(parts));
  }

  const AnswerReading& reading_;
  const CallFormat& format_;
  const Tokenizer& tokenizer_;
  GrammarBuilder builder_;
  JsonText json_;
};

}  // namespace

Grammar grammar_of_calls(const AnswerReading& reading, const CallDemand& demand, const Tokenizer& tokenizer) {
  if (!reading.reads_calls) throw GrammarError("the model has no format of calls");
  if (reading.format.calls->style == CallStyle::kTagged)
    throw GrammarError("calls of this model are written in tags, which can't be enforced yet");
  return CallGrammar(reading, tokenizer).of(demanded_tools(reading.tools, demand.name), demand.is_for_one);
}

}  // namespace troupe
