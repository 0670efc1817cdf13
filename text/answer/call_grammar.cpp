// SPDX-License-Identifier: Apache-2.0
#include "text/answer/call_grammar.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/answer/argument_grammar.hpp"
#include "text/answer/harmony_parser.hpp"
#include "text/answer/marker_grammar.hpp"
#include "text/answer/tool_schemas.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/json_text.hpp"
#include "text/grammar/marked_text.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kMaxIdDigits = 6;
constexpr std::uint32_t kIdCharacters = 9;  // of ids that are no numbers: Mistral's

struct Tool {
  std::string name;
  std::string schema;  // JSON
  bool is_strict = false;
  bool must_obey = false;  // no grammar rather than arguments that are left free
};

std::vector<Tool> demanded_tools(std::string_view tools, const CallDemand& demand) {
  const std::string& name = demand.name;
  std::vector<Tool> out;
  for (const Json& tool : Json::parse(tools)) {
    const Json& function = tool.at("function");
    if (!name.empty() && function.at("name") != name) continue;
    const bool is_strict = function.contains("strict") && function.at("strict") == true;
    out.push_back({.name = function.at("name"),
                   .schema = function.at("parameters").dump(),
                   .is_strict = is_strict,
                   .must_obey = is_strict && !demand.may_be_text});
  }
  if (out.empty())
    throw GrammarError(name.empty() ? "there are no tools" : "there is no tool \"" + name + "\"");
  return out;
}

// With any arguments of those that are not strict, or of all.
std::vector<Tool> freed(std::vector<Tool> tools, bool strict_ones_too) {
  for (Tool& tool : tools)
    if (strict_ones_too || !tool.is_strict) tool.schema = R"({"type": "object"})";
  return tools;
}

class CallGrammar {
 public:
  CallGrammar(const AnswerReading& reading, const Tokenizer& tokenizer)
      : reading_(reading),
        format_(*reading.format.calls),
        schemas_(reading.tools),
        markers_(builder_, tokenizer),
        spelling_(format_.style == CallStyle::kHarmony && !harmony::has_special_marks(tokenizer)
                      ? JsonSpelling{.escaped = '<'}
                      : JsonSpelling()),
        json_(builder_, spelling_),
        arguments_(builder_, tokenizer, format_, schemas_) {}

  Grammar of(const std::vector<Tool>& tools, const CallDemand& demand) {
    if (reading_.format.is_harmony()) return builder_.build(harmony_messages(tools, demand.may_be_text));
    const auto calls = section_of(tools, demand.is_for_one);
    const auto answer = demand.may_be_text ? text_with(calls, demand.is_for_one) : calls;
    return builder_.build(builder_.sequence({reasoning(), answer}));
  }

 private:
  GrammarExpression section_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto calls = format_.is_list ? list_of(tools, is_for_one) : calls_of(tools, is_for_one);
    return builder_.sequence(
        {markers_.spaced(format_.section_begin), calls, markers_.spaced(format_.section_end)});
  }

  GrammarExpression calls_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto one = builder_.sequence({markers_.spaced(format_.call_begin), any_call(tools),
                                        markers_.space(), markers_.spaced(format_.call_end)});
    if (is_for_one) return one;
    return builder_.sequence(
        {one, builder_.repeat(builder_.sequence({markers_.space(), one}), 0, kUnboundedCount)});
  }

  GrammarExpression list_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto one = any_call(tools);
    const auto further =
        builder_.repeat(builder_.sequence({json_.comma(), one}), 0, is_for_one ? 0 : kUnboundedCount);
    return builder_.sequence({markers_.spaced(format_.call_begin), builder_.text("["), one, further,
                              builder_.text("]"), markers_.spaced(format_.call_end)});
  }

  // Thoughts and preambles, each a message, then a call or the answer's text; a call ends the answer.
  GrammarExpression harmony_messages(const std::vector<Tool>& tools, bool may_be_text) {
    const auto body = text_without(builder_, {harmony::kEnds.begin(), harmony::kEnds.end()});
    const auto message = [&](const std::string& channel) {
      return builder_.sequence({markers_.exact(harmony::kChannel + channel + harmony::kMessage), body,
                                markers_.exact(std::string(harmony::kEnd) + harmony::kStart)});
    };
    std::vector<GrammarExpression> first{message("analysis")};
    if (may_be_text) first.push_back(message("commentary"));
    std::vector<GrammarExpression> last;
    for (const Tool& tool : tools) last.push_back(harmony_call(tool));
    if (may_be_text)
      last.push_back(builder_.sequence(
          {markers_.exact(std::string(harmony::kChannel) + "final" + harmony::kMessage), body}));
    return builder_.sequence({builder_.repeat(builder_.any_of(std::move(first)), 0, kUnboundedCount),
                              builder_.any_of(std::move(last))});
  }

  // The recipient behind the channel, or in front of it as the template writes it.
  GrammarExpression harmony_call(const Tool& tool) {
    const auto name = builder_.text(tool.name);
    const auto behind_channel =
        builder_.sequence({markers_.exact(format_.call_begin), name, markers_.exact(format_.name_end)});
    const auto before_channel = builder_.sequence(
        {markers_.exact(harmony::kRecipient), name,
         markers_.exact(std::string(harmony::kChannel) + "commentary json" + harmony::kMessage)});
    return builder_.sequence({builder_.any_of({behind_channel, before_channel}), arguments_of(tool),
                              builder_.optional(markers_.exact(format_.call_end))});
  }

  // Text, and behind calls text again.
  GrammarExpression text_with(GrammarExpression calls, bool is_for_one) {
    const GrammarRule text = builder_.declare_rule();
    const auto further = is_for_one ? calls : builder_.sequence({calls, builder_.call(text)});
    builder_.define(
        text, builder_.sequence({text_without(builder_, format_.triggers()), builder_.optional(further)}));
    return builder_.call(text);
  }

  GrammarExpression any_call(const std::vector<Tool>& tools) {
    std::vector<GrammarExpression> calls;
    for (const Tool& tool : tools) calls.push_back(call_of(tool));
    return builder_.any_of(std::move(calls));
  }

  GrammarExpression call_of(const Tool& tool) {
    const auto arguments = arguments_of(tool);
    const auto name = builder_.text(tool.name);
    switch (format_.style) {
      case CallStyle::kJson: return object_of(tool, arguments);
      case CallStyle::kNamedJson:
        return builder_.sequence({name, id(), markers_.spaced(format_.name_end), arguments});
      case CallStyle::kTagged:
        return builder_.sequence({name, markers_.exact(format_.name_end), markers_.space(), arguments});
      case CallStyle::kPython: return builder_.sequence({name, json_.enclosed("(", arguments, ")")});
      case CallStyle::kHarmony: break;  // not in a section
    }
    return builder_.nothing();
  }

  GrammarExpression object_of(const Tool& tool, GrammarExpression arguments) {
    if (format_.name_key.empty())
      return json_.enclosed("{", json_.pair(std::string_view(tool.name), arguments), "}");
    const auto name = json_.pair(std::string_view(format_.name_key), builder_.text("\"" + tool.name + "\""));
    const auto of_arguments = json_.pair(std::string_view(format_.arguments_key), arguments);
    return json_.enclosed("{", builder_.sequence({name, json_.comma(), of_arguments}), "}");
  }

  GrammarExpression id() {
    if (format_.id_begin.empty()) return builder_.empty();
    ByteSet characters;
    for (unsigned char byte = '0'; byte <= '9'; ++byte) characters.set(byte);
    const auto begin = markers_.exact(format_.id_begin);
    if (format_.has_numbered_ids)
      return builder_.sequence({begin, builder_.repeat(builder_.byte_of(characters), 1, kMaxIdDigits)});
    for (unsigned char byte = 'a'; byte <= 'z'; ++byte) characters.set(byte).set(byte - 'a' + 'A');
    return builder_.optional(builder_.sequence(
        {begin, builder_.repeat(builder_.byte_of(characters), kIdCharacters, kIdCharacters)}));
  }

  GrammarExpression arguments_of(const Tool& tool) {
    try {
      if (names_arguments()) return arguments_.arguments(tool.name, tool.schema, tool.must_obey);
      GrammarBuilder trial;
      trial.build(json_schema_expression(trial, tool.schema, {.spelling = spelling_}));
    } catch (const GrammarError& error) {
      if (!tool.must_obey && !names_arguments()) return json_.any_object();
      throw GrammarError("the parameters of \"" + tool.name + "\": " + error.what());
    }
    return json_schema_expression(builder_, tool.schema, {.spelling = spelling_});
  }

  // One by one, not in an object.
  bool names_arguments() const {
    return format_.style == CallStyle::kTagged || format_.style == CallStyle::kPython;
  }

  GrammarExpression reasoning() {
    const ReasoningFormat& format = reading_.format.reasoning;
    if (!format.exists()) return builder_.empty();
    const auto thought = builder_.sequence({markers_.text_until(format.end), markers_.space()});
    if (reading_.begins_in_reasoning) return thought;
    if (format.begin.empty()) return builder_.empty();
    return builder_.optional(builder_.sequence({markers_.spaced(format.begin), thought}));
  }

  const AnswerReading& reading_;
  const CallFormat& format_;
  const ToolSchemas schemas_;
  GrammarBuilder builder_;
  MarkerGrammar markers_;
  const JsonSpelling spelling_;  // of objects that hold no mark of gpt-oss where one would be read
  JsonText json_;
  ArgumentGrammar arguments_;
};

}  // namespace

bool can_bind_text(const AnswerFormat& format) {
  return format.calls && format.calls->has_marker() && format.reasoning.content_begin.empty();
}

Grammar grammar_of_calls(const AnswerReading& reading, const CallDemand& demand, const Tokenizer& tokenizer) {
  if (!reading.reads_calls) throw GrammarError("the model has no format of calls");
  const auto tools = demanded_tools(reading.tools, demand);
  const bool are_all_strict =
      std::all_of(tools.begin(), tools.end(), [](const Tool& tool) { return tool.is_strict; });
  try {
    return CallGrammar(reading, tokenizer).of(tools, demand);
  } catch (const GrammarError&) {
    if (are_all_strict && !demand.may_be_text) throw;
  }
  try {
    if (!are_all_strict) return CallGrammar(reading, tokenizer).of(freed(tools, false), demand);
  } catch (const GrammarError&) {
    if (!demand.may_be_text) throw;
  }
  return CallGrammar(reading, tokenizer).of(freed(tools, true), demand);
}

}  // namespace troupe
