// SPDX-License-Identifier: Apache-2.0
#include "text/answer/answer_format_probe.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/answer/answer_parser.hpp"
#include "text/answer/call_header.hpp"
#include "text/answer/call_spelling_probe.hpp"
#include "text/answer/harmony_parser.hpp"
#include "text/answer/json_scanner.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"
#include "text/rendered_probe.hpp"
#include "text/template_messages.hpp"

namespace troupe {
namespace {

using Json = nlohmann::json;

constexpr const char* kQuestion = "A question.";
constexpr const char* kText = "probe_text";
constexpr const char* kReasoning = "probe_reasoning";
constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"probe_function","description":"A probe.","parameters":)"
    R"({"type":"object","properties":{"probe_key":{"type":"string","description":"A key."},)"
    R"("number_key":{"type":"integer","description":"A key."}},"required":["probe_key"]}}},)"
    R"({"type":"function","function":{"name":"other_function","description":"A probe.","parameters":)"
    R"({"type":"object","properties":{"other_key":{"type":"string","description":"A key."}},)"
    R"("required":["other_key"]}}}])";

const ToolCall kFirstCall = {.id = "a1b2c3d4e",
                             .name = "probe_function",
                             .arguments = R"({"probe_key":"probe_value","number_key":47})"};
const ToolCall kSecondCall = {
    .id = "z9y8x7w6v", .name = "other_function", .arguments = R"({"other_key":"other_value"})"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

// The part of an answer's rendering that comes behind the question; nullopt: refused.
std::optional<std::string> rendered_answer(const ChatTemplate& chat_template, TemplateValue::Array answer,
                                           bool shows_tools, bool adds_prompt = false) {
  ChatTemplateInput input;
  input.messages = std::move(answer);
  input.messages.insert(input.messages.begin(), chat_message("user", kQuestion));
  input.add_generation_prompt = adds_prompt;
  if (shows_tools) input.tools = parse_client_json(kTools).value_or(TemplateValue());
  const auto text = rendered_probe(chat_template, std::move(input));
  if (!text) return std::nullopt;
  const auto question = text->rfind(kQuestion);
  if (question == std::string::npos) return std::nullopt;
  return text->substr(question + std::string_view(kQuestion).size());
}

std::optional<std::string> rendered_calls(const ChatTemplate& chat_template,
                                          const std::vector<ToolCall>& calls) {
  const auto& dialect = chat_template.tool_dialect();
  const std::vector<ChatMessage> answer = {{.role = "assistant", .tool_calls = calls}};
  return rendered_answer(chat_template, template_messages(answer, dialect), dialect.shows_tools);
}

// Markers end where a tag is cut open: "</a><" is "</a>".
std::string_view without_open_tag(std::string_view text) {
  const auto open = text.find_last_of("<[");
  if (open == std::string_view::npos) return text;
  return text.find(text[open] == '<' ? '>' : ']', open) == std::string_view::npos ? text.substr(0, open)
                                                                                  : text;
}

// And begin where one begins: "></a><b>" is "<b>" if nothing opened the first.
std::string_view without_closed_tag(std::string_view text) {
  while (true) {
    const auto close = text.find_first_of(">]");
    if (close == std::string_view::npos || text.find_first_of("<[") < close) return text;
    text.remove_prefix(close + 1);
  }
}

std::string_view common_beginning(std::string_view a, std::string_view b) {
  std::size_t num = 0;
  while (num < std::min(a.size(), b.size()) && a[num] == b[num]) ++num;
  return without_open_tag(a.substr(0, num));
}

std::string_view common_end(std::string_view a, std::string_view b) {
  std::size_t num = 0;
  while (num < std::min(a.size(), b.size()) && a[a.size() - 1 - num] == b[b.size() - 1 - num]) ++num;
  return without_closed_tag(a.substr(a.size() - num));
}

// A call in a rendered text.
struct Place {
  std::size_t begin = 0, end = 0;
};

// The outermost JSON around text[at].
std::optional<Place> json_around(std::string_view text, std::size_t at, std::size_t from) {
  if (at == std::string_view::npos) return std::nullopt;
  for (std::size_t begin = from; begin < at; ++begin) {
    if (text[begin] != '{' && text[begin] != '[') continue;
    JsonScanner scanner;
    const auto end = begin + scanner.take(text.substr(begin));
    if (scanner.state() != JsonScanner::State::kDone || end <= at) continue;
    if (Json::accept(text.substr(begin, end - begin))) return Place{begin, end};
  }
  return std::nullopt;
}

// Finds a call's keys by the values known: the function's name, and an object with the
// argument.
bool find_keys(const Json& value, CallFormat& format) {
  if (value.is_array()) return !value.empty() && find_keys(value[0], format);
  if (!value.is_object()) return false;
  bool has_name = false, has_arguments = false;
  for (const auto& [key, member] : value.items()) {
    const bool has_probe = member.is_object() && member.contains("probe_key");
    if (key == kFirstCall.name && has_probe) {
      format.name_key = format.arguments_key = "";
      return true;
    }
    if (member == kFirstCall.name) {
      format.name_key = key;
      has_name = true;
    } else if (has_probe) {
      format.arguments_key = key;
      has_arguments = true;
    } else if (member.is_object() && find_keys(member, format)) {
      return true;
    }
  }
  return has_name && has_arguments;
}

// The probes' renderings: one call, two (empty: the template shows one only), and
// where the answer's own text would begin and what comes behind it.
struct Renderings {
  std::string one, two, plain;
  std::size_t answer_begin = 0;  // in one and two
  std::string_view behind_answer() const {
    const auto at = plain.find(kText);
    return at == std::string::npos ? std::string_view()
                                   : std::string_view(plain).substr(at + std::string_view(kText).size());
  }
};

std::optional<Renderings> render_probes(const ChatTemplate& chat_template) {
  auto one = rendered_calls(chat_template, {kFirstCall});
  if (!one || one->find(kFirstCall.name) == std::string::npos) return std::nullopt;
  const auto two = rendered_calls(chat_template, {kFirstCall, kSecondCall});
  const auto plain = rendered_answer(chat_template, {chat_message("assistant", kText)},
                                     chat_template.tool_dialect().shows_tools);
  Renderings out{.one = std::move(*one), .two = two.value_or(""), .plain = plain.value_or("")};
  if (out.two.find(kSecondCall.name) == std::string::npos) out.two.clear();
  const auto text = out.plain.find(kText);
  if (text != std::string::npos)
    out.answer_begin = common_beginning(out.one, std::string_view(out.plain).substr(0, text)).size();
  return out;
}

// The second call's name, behind a first one that ends at `from` in both renderings.
std::optional<std::size_t> second_name(const Renderings& renderings, std::size_t from) {
  if (renderings.two.compare(0, from, renderings.one, 0, from) != 0) return std::nullopt;
  const auto at = renderings.two.find(kSecondCall.name, from);
  return at == std::string::npos ? std::nullopt : std::optional(at);
}

// Markers around calls: before is in front of the first call, between separates two,
// behind follows the last.
void take_markers(const Renderings& renderings, std::string_view before, std::string_view between,
                  std::string_view behind, CallFormat& format) {
  const auto own = behind.substr(
      0, behind.size() - std::min(behind.size(), common_end(behind, renderings.behind_answer()).size()));
  if (between.empty()) {
    format.call_begin = trimmed(before);
    format.call_end = trimmed(own);
    return;
  }
  const auto call_begin = common_end(before, between);
  const auto call_end = common_beginning(between, behind);
  format.call_begin = trimmed(call_begin);
  format.section_begin = trimmed(before.substr(0, before.size() - call_begin.size()));
  format.call_end = trimmed(call_end);
  format.section_end = own.size() > call_end.size() ? trimmed(own.substr(call_end.size())) : "";
  if (format.section_begin.empty()) format.section_end.clear();
}

std::optional<CallFormat> json_format(const Renderings& renderings) {
  const auto& one = renderings.one;
  const auto at = one.find(kFirstCall.name, renderings.answer_begin);
  if (at == std::string::npos) return std::nullopt;
  const auto call = json_around(one, at, renderings.answer_begin);
  if (!call) return std::nullopt;
  CallFormat format;
  const auto value = Json::parse(one.substr(call->begin, call->end - call->begin));
  if (!find_keys(value, format)) return std::nullopt;
  format.is_list = value.is_array();
  const auto before =
      std::string_view(one).substr(renderings.answer_begin, call->begin - renderings.answer_begin);
  auto behind = std::string_view(one).substr(call->end);
  std::string_view between;
  const auto other = second_name(renderings, call->end);
  if (!format.is_list && other) {
    const auto second = json_around(renderings.two, *other, call->end);
    if (!second) return std::nullopt;
    between = std::string_view(renderings.two).substr(call->end, second->begin - call->end);
    behind = std::string_view(renderings.two).substr(second->end);
  }
  take_markers(renderings, before, between, behind, format);
  return format;
}

// name MIDDLE {…}, with an id in the middle that differs between calls.
void take_middle(std::string_view first, std::string_view second, CallFormat& format) {
  if (second.empty() || first == second) {
    format.name_end = trimmed(first);
    return;
  }
  std::size_t num = 0;
  while (num < std::min(first.size(), second.size()) && first[num] == second[num]) ++num;
  format.id_begin = trimmed(first.substr(0, num));
  const auto id = first.substr(num, first.size() - num - common_end(first, second).size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  format.has_numbered_ids = std::all_of(id.begin(), id.end(), is_digit);
  format.name_end = trimmed(common_end(first, second));
}

std::optional<CallFormat> named_json_format(const Renderings& renderings) {
  const std::string_view one = renderings.one, two = renderings.two;
  const auto at = one.find(kFirstCall.name, renderings.answer_begin);
  const auto key = one.find("\"probe_key\"");
  if (at == std::string_view::npos || key == std::string_view::npos || key < at) return std::nullopt;
  const auto name_end = at + kFirstCall.name.size();
  const auto object = json_around(one, key, name_end);
  if (!object) return std::nullopt;
  CallFormat format{.style = CallStyle::kNamedJson};
  std::string_view between, second_middle, behind = one.substr(object->end);
  if (const auto other = second_name(renderings, object->end)) {
    const auto other_end = *other + kSecondCall.name.size();
    const auto second = json_around(two, two.find("\"other_key\"", other_end), other_end);
    if (!second) return std::nullopt;
    between = two.substr(object->end, *other - object->end);
    second_middle = two.substr(other_end, second->begin - other_end);
    behind = two.substr(second->end);
  }
  take_middle(one.substr(name_end, object->begin - name_end), second_middle, format);
  take_markers(renderings, one.substr(renderings.answer_begin, at - renderings.answer_begin), between, behind,
               format);
  return format;
}

std::optional<CallFormat> tagged_format(const Renderings& renderings) {
  const std::string_view one = renderings.one, two = renderings.two;
  std::array<std::size_t, 5> at{}, end{};
  const std::array<std::string_view, 5> parts = {kFirstCall.name, "probe_key", "probe_value", "number_key",
                                                 "47"};
  std::size_t from = renderings.answer_begin;
  for (std::size_t i = 0; i < parts.size(); ++i, from = end[i - 1]) {
    at[i] = one.find(parts[i], from);
    if (at[i] == std::string_view::npos) return std::nullopt;
    end[i] = at[i] + parts[i].size();
  }
  const auto gap = [&](std::size_t i) { return one.substr(end[i], at[i + 1] - end[i]); };
  CallFormat format{.style = CallStyle::kTagged};
  const auto key_begin = common_end(gap(0), gap(2));
  format.key_begin = trimmed(key_begin);
  format.name_end = trimmed(gap(0).substr(0, gap(0).size() - key_begin.size()));
  const auto value_end = gap(2).substr(0, gap(2).size() - key_begin.size());
  format.value_end = trimmed(value_end);
  format.has_value_lines = value_end.starts_with("\n");
  const auto key_end_of = [&](std::string_view text) {
    return std::string(format.has_value_lines && text.ends_with('\n') ? text.substr(0, text.size() - 1)
                                                                      : text);
  };
  format.key_end = key_end_of(gap(1));
  if (gap(3) != gap(1)) format.other_key_end = key_end_of(gap(3));
  if (format.key_begin.empty() || format.value_end.empty() || format.key_end.empty()) return std::nullopt;
  const auto call_end_of = [&](std::string_view behind) {
    return behind.substr(behind.find(format.value_end) == std::string_view::npos
                             ? behind.size()
                             : behind.find(format.value_end) + format.value_end.size());
  };
  std::string_view between;
  if (const auto other = second_name(renderings, end[4]))
    between = call_end_of(two.substr(end[4], *other - end[4]));
  take_markers(renderings, one.substr(renderings.answer_begin, at[0] - renderings.answer_begin), between,
               call_end_of(one.substr(end[4])), format);
  return format;
}

// Are these calls read as they were meant, whatever text follows?
bool reads(const AnswerFormat& format, std::string_view answer, const std::vector<ToolCall>& calls) {
  AnswerParser parser({.format = {.calls = format.calls}, .reads_calls = true, .tools = kTools});
  std::vector<CallDelta> found;
  const auto collect = [&](AnswerParts parts) {
    for (auto& delta : parts.calls) {
      if (found.empty() || found.back().index != delta.index) {
        found.push_back(std::move(delta));
      } else {
        found.back().arguments += delta.arguments;
      }
    }
  };
  collect(parser.push(answer));
  collect(parser.finish());
  const auto is_same = [](const CallDelta& delta, const ToolCall& call) {
    return delta.name == call.name &&
           Json::parse(delta.arguments, nullptr, false) == Json::parse(call.arguments, nullptr, false);
  };
  return std::equal(found.begin(), found.end(), calls.begin(), calls.end(), is_same);
}

// Some templates write an empty block of reasoning in front of calls.
void remove_reasoning(const ReasoningFormat& reasoning, CallFormat& calls) {
  for (auto* marker : {&calls.section_begin, &calls.call_begin}) {
    const auto end = reasoning.exists() ? marker->find(reasoning.end) : std::string::npos;
    if (end != std::string::npos)
      *marker = trimmed(std::string_view(*marker).substr(end + reasoning.end.size()));
  }
}

std::optional<CallSpelling> probe_spelling(const ChatTemplate& chat_template, const CallFormat& format,
                                           const Renderings& renderings) {
  const auto with_arguments = [&](const std::string& arguments) {
    ToolCall call = kFirstCall;
    call.arguments = arguments;
    return rendered_calls(chat_template, {call}).value_or("");
  };
  const ToolDialect& dialect = chat_template.tool_dialect();
  return spelling_of(format,
                     {.first_name = kFirstCall.name,
                      .second_name = kSecondCall.name,
                      .one = renderings.one,
                      .two = renderings.two,
                      .without_arguments = with_arguments("{}"),
                      .nested = with_arguments(spelled_probe_arguments(compact_separators())),
                      .prompt = rendered_answer(chat_template, {}, dialect.shows_tools, true).value_or(""),
                      .answer_begin = renderings.answer_begin,
                      .has_text_arguments = dialect.form.has_text_arguments});
}

std::optional<CallFormat> probe_calls(const ChatTemplate& chat_template, const ReasoningFormat& reasoning) {
  const auto renderings = render_probes(chat_template);
  if (!renderings) return std::nullopt;
  for (const auto derive : {json_format, named_json_format, tagged_format}) {
    auto calls = derive(*renderings);
    if (!calls) continue;
    remove_reasoning(reasoning, *calls);
    const AnswerFormat format{.calls = calls};
    const auto answer = [&](const std::string& text) {
      return std::string_view(text).substr(renderings->answer_begin);
    };
    const bool is_right =
        reads(format, answer(renderings->one), {kFirstCall}) &&
        (renderings->two.empty() || reads(format, answer(renderings->two), {kFirstCall, kSecondCall}));
    if (!is_right) continue;
    calls->spelling = probe_spelling(chat_template, *calls, *renderings);
    return calls;
  }
  return std::nullopt;
}

// The tag that text ends with, or the words and tags if those alone are not telling.
std::string_view last_tag(std::string_view text, std::string_view plain) {
  text = trimmed(text);
  const auto tells = [&](std::string_view tag) { return plain.find(tag) == std::string_view::npos; };
  std::size_t begin = text.size();
  for (int i = 0; i < 2 && begin > 0; ++i) {
    begin = text.find_last_of("<[", begin - 1);
    if (begin == std::string_view::npos) return {};
    if (tells(text.substr(begin))) return text.substr(begin);
  }
  return {};
}

std::string_view first_tag(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || (text.front() != '<' && text.front() != '[')) return {};
  const auto end = text.find(text.front() == '<' ? '>' : ']');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

// Blocks without content, which some templates write where there is no reasoning.
std::string without_empty_block(std::string plain, std::string_view end) {
  const auto at = plain.find(end);
  if (at == std::string::npos) return plain;
  const auto before = trimmed(std::string_view(plain).substr(0, at));
  const auto begin = before.find_last_of("<[");
  if (begin != std::string_view::npos && before.size() > 0 && (before.back() == '>' || before.back() == ']'))
    plain.erase(static_cast<std::size_t>(before.data() - plain.data()) + begin,
                at + end.size() - (static_cast<std::size_t>(before.data() - plain.data()) + begin));
  return plain;
}

std::optional<ReasoningFormat> rendered_reasoning(const ChatTemplate& chat_template) {
  TemplateValue::Object message = {{"role", TemplateValue::trusted("assistant")},
                                   {"content", TemplateValue::input(kText)}};
  const auto plain = rendered_answer(chat_template, {TemplateValue(message)}, false);
  for (const char* name : {"reasoning_content", "reasoning", "thinking"})
    message.emplace_back(name, TemplateValue::input(kReasoning));
  const auto text = rendered_answer(chat_template, {TemplateValue(message)}, false);
  if (!text || !plain) return std::nullopt;
  const auto at = text->find(kReasoning);
  const auto behind = at + std::string_view(kReasoning).size();
  const auto answer = at == std::string::npos ? at : text->find(kText, behind);
  if (answer == std::string::npos) return std::nullopt;
  const auto between = std::string_view(*text).substr(behind, answer - behind);
  const auto end = first_tag(between);
  if (end.empty()) return std::nullopt;
  const auto begin = last_tag(std::string_view(*text).substr(0, at), without_empty_block(*plain, end));
  if (begin.empty()) return std::nullopt;
  return ReasoningFormat{
      .begin = std::string(begin),
      .end = std::string(end),
      .content_begin = std::string(trimmed(between.substr(between.find(end) + end.size())))};
}

// Some templates only cut reasoning off, or open it for the model: they name its end.
ReasoningFormat named_reasoning(std::string_view source) {
  constexpr std::array<std::pair<const char*, const char*>, 3> kPairs = {{
      {"<think>", "</think>"},
      {"[THINK]", "[/THINK]"},
      {"<|START_THINKING|>", "<|END_THINKING|>"},
  }};
  for (const auto& [begin, end] : kPairs)
    if (source.find(end) != std::string_view::npos) return {.begin = begin, .end = end};
  return {};
}

// Some templates show no calls, or change lists to number them, which we refuse: they name markers.
std::optional<CallFormat> named_calls(std::string_view source) {
  const auto has = [&](std::string_view marker) { return source.find(marker) != std::string_view::npos; };
  if (has("<|tool_calls_section_begin|>") && has("<|tool_call_argument_begin|>"))  // Kimi K2
    return CallFormat{.style = CallStyle::kNamedJson,
                      .section_begin = "<|tool_calls_section_begin|>",
                      .section_end = "<|tool_calls_section_end|>",
                      .call_begin = "<|tool_call_begin|>functions.",
                      .call_end = "<|tool_call_end|>",
                      .id_begin = ":",
                      .has_numbered_ids = true,
                      .name_end = "<|tool_call_argument_begin|>",
                      .spelling = CallSpelling{.in_front = ""}};
  if (has("<|tool_list_start|>"))  // LFM2
    return CallFormat{
        .style = CallStyle::kPython,
        .call_begin = "<|tool_call_start|>",
        .call_end = "<|tool_call_end|>",
        .is_list = true,
        .spelling = CallSpelling{.in_front = "", .between_calls = ", ", .arguments = JsonSeparators()}};
  return std::nullopt;
}

// Are a text and a call that the template shows read as gpt-oss' notation?
bool is_harmony(const ChatTemplate& chat_template) {
  const auto prompt = rendered_answer(chat_template, {}, false, true);
  const auto plain = rendered_answer(chat_template, {chat_message("assistant", kText)}, false);
  if (!prompt || !plain || !prompt->ends_with(harmony::kStart) || !plain->starts_with(*prompt)) return false;
  const auto call = rendered_calls(chat_template, {kFirstCall});
  if (!call || !call->starts_with(*prompt)) return false;
  const AnswerFormat format = harmony_answer_format();
  AnswerParser parser({.format = format});
  const auto answer = [&](const std::string& text) { return std::string_view(text).substr(prompt->size()); };
  return parser.push(answer(*plain)).text == kText && reads(format, answer(*call), {kFirstCall});
}

// Is an answer without reasoning read as its text alone? In doubt where text has a
// marker of its own: there may be more of them than one (gpt-oss writes channels).
bool reads_text(const ChatTemplate& chat_template, const AnswerFormat& format) {
  if (format.reasoning.content_begin.empty()) return true;
  const auto prompt = rendered_answer(chat_template, {}, false, true);
  const auto plain = rendered_answer(chat_template, {chat_message("assistant", kText)}, false);
  if (!prompt || !plain) return false;
  const auto answer = std::string_view(*plain).substr(common_beginning(*prompt, *plain).size());
  AnswerParser parser({.format = format, .reads_calls = true, .tools = kTools});
  return parser.push(answer).text.starts_with(kText);
}

}  // namespace

AnswerFormat probe_answer_format(const ChatTemplate& chat_template, std::string_view source) {
  if (is_harmony(chat_template)) return harmony_answer_format();
  AnswerFormat format;
  format.reasoning = rendered_reasoning(chat_template).value_or(named_reasoning(source));
  if (chat_template.tool_dialect().shows_calls) {
    format.calls = probe_calls(chat_template, format.reasoning);
  } else {
    format.calls = named_calls(source).value_or(general_call_format());
  }
  return reads_text(chat_template, format) ? format : AnswerFormat();
}

}  // namespace troupe
