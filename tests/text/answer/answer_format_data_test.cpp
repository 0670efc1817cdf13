// SPDX-License-Identifier: Apache-2.0
// Formats that are found in real chat templates outside the repository.
#include "tests/text/answer/call_formats.hpp"
#include "tests/text/answer/rendered_answer.hpp"
#include "text/answer/answer_format_probe.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/text/jinja/template_input.hpp"
#include "tests/text/text_data.hpp"
#include "text/answer/answer_parser.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"
#include "text/template_messages.hpp"

namespace troupe {
namespace {

CallFormat glm(const std::string& key_end) {
  return {.style = CallStyle::kTagged,
          .call_begin = "<tool_call>",
          .call_end = "</tool_call>",
          .key_begin = "<arg_key>",
          .key_end = key_end,
          .value_end = "</arg_value>"};
}

CallFormat json_list(const std::string& begin, const std::string& end) {
  return {.call_begin = begin, .call_end = end, .is_list = true};
}

CallFormat cohere() {
  auto format = json_list("<|START_ACTION|>", "<|END_ACTION|>");
  format.name_key = "tool_name";
  format.arguments_key = "parameters";
  return format;
}

CallFormat named(const std::string& begin, const std::string& name_end, const std::string& end = "") {
  return {.style = CallStyle::kNamedJson, .call_begin = begin, .call_end = end, .name_end = name_end};
}

CallFormat deepseek_r1(const std::string& section_end) {
  auto format = named("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "```json", "```<｜tool▁call▁end｜>");
  format.section_begin = "<｜tool▁calls▁begin｜>";
  format.section_end = section_end;
  return format;
}

CallFormat deepseek_tags(const std::string& section) {
  return {.style = CallStyle::kTagged,
          .section_begin = "<｜DSML｜" + section + ">",
          .section_end = "</｜DSML｜" + section + ">",
          .call_begin = "<｜DSML｜invoke name=\"",
          .call_end = "</｜DSML｜invoke>",
          .name_end = "\">",
          .key_begin = "<｜DSML｜parameter name=\"",
          .key_end = "\" string=\"true\">",
          .value_end = "</｜DSML｜parameter>",
          .other_key_end = "\" string=\"false\">"};
}

// The general format is that of Hermes and Qwen.
std::map<std::string, std::optional<CallFormat>> call_formats() {
  const CallFormat llama = {.arguments_key = "parameters"};
  auto apertus = json_list("<|tools_prefix|>", "<|tools_suffix|>");
  apertus.name_key = apertus.arguments_key = "";
  auto deepseek_v3_1 = named("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>");
  deepseek_v3_1.section_begin = "<｜tool▁calls▁begin｜>";
  deepseek_v3_1.section_end = "<｜tool▁calls▁end｜>";
  auto kimi = named("<|tool_call_begin|>functions.", "<|tool_call_argument_begin|>", "<|tool_call_end|>");
  kimi.section_begin = "<|tool_calls_section_begin|>";
  kimi.section_end = "<|tool_calls_section_end|>";
  kimi.id_begin = ":";
  kimi.has_numbered_ids = true;
  const CallFormat lfm2 = {.style = CallStyle::kPython,
                           .call_begin = "<|tool_call_start|>",
                           .call_end = "<|tool_call_end|>",
                           .is_list = true};
  auto mistral_with_ids = named("[TOOL_CALLS]", "[ARGS]");
  mistral_with_ids.id_begin = "[CALL_ID]";
  auto seed = kQwenCoder;
  seed.call_begin = "<seed:tool_call>\n<function=";
  seed.call_end = "</function>\n</seed:tool_call>";
  seed.has_value_lines = false;
  return {{"Apertus-8B-Instruct", apertus},
          {"Apriel-1.6-15b-Thinker-fixed", json_list("<tool_calls>", "</tool_calls>")},
          {"ByteDance-Seed-OSS", seed},
          {"Cohere2MoE", cohere()},
          {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", cohere()},
          {"GLM-4.6", glm("</arg_key>\n<arg_value>")},
          {"GLM-4.7-Flash", glm("</arg_key><arg_value>")},
          {"GLM-5.2", glm("</arg_key><arg_value>")},
          {"GigaChat3-10B-A1.8B", CallFormat{.call_begin = "<|message_sep|>\n\nfunction call<|role_sep|>"}},
          {"GigaChat3.1-10B-A1.8B", CallFormat{.call_begin = "<|function_call|>"}},
          // These show no calls: their markers are named in the template.
          {"Kimi-K2-Instruct", kimi},
          {"Kimi-K2-Thinking", kimi},
          {"LFM2-8B-A1B", lfm2},
          {"Mistral-Small-3.2-24B-Instruct-2506", mistral_with_ids},
          {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", kQwenCoder},
          {"Qwen3-Coder", kQwenCoder},
          {"Qwen3.5-4B", kQwenCoder},
          {"StepFun3.5-Flash", kQwenCoder},
          {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", deepseek_r1("<｜tool▁calls▁end｜>")},
          {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
           deepseek_r1("<｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜Assistant｜>")},
          {"deepseek-ai-DeepSeek-V3.1", deepseek_v3_1},
          {"deepseek-ai-DeepSeek-V3.2", deepseek_tags("function_calls")},
          {"deepseek-ai-DeepSeek-V4", deepseek_tags("tool_calls")},
          {"llama-cpp-deepseek-r1", deepseek_r1("<｜tool▁calls▁end｜>")},
          {"meetkai-functionary-medium-v3.1", named("<function=", ">", "</function>")},
          {"meta-llama-Llama-3.1-8B-Instruct", llama},
          {"meta-llama-Llama-3.2-3B-Instruct", llama},
          {"meta-llama-Llama-3.3-70B-Instruct", llama},
          {"mistralai-Ministral-3-14B-Reasoning-2512", named("[TOOL_CALLS]", "[ARGS]")},
          {"mistralai-Mistral-Nemo-Instruct-2407", json_list("[TOOL_CALLS]", "")},
          {"moonshotai-Kimi-K2", kimi},
          {"stepfun-ai-Step-3.5-Flash", kQwenCoder},
          {"unsloth-Apriel-1.5", json_list("<tool_calls>", "</tool_calls>")},
          {"unsloth-mistral-Devstral-Small-2507", named("[TOOL_CALLS]", "[ARGS]")},
          // Their formats are not understood, and their answers stay text.
          {"google-gemma-4-31B-it", std::nullopt},
          {"google-gemma-4-31B-it-interleaved", std::nullopt},
          {"meetkai-functionary-medium-v3.2", std::nullopt},
          {"openai-gpt-oss-120b", harmony_answer_format().calls}};
}

const std::map<std::string, ReasoningFormat>& reasoning_formats() {
  static const ReasoningFormat kThink = {.begin = "<think>", .end = "</think>"};
  static const std::map<std::string, ReasoningFormat> kFormats = {
      {"Bielik-11B-v3.0-Instruct", kThink},
      {"ByteDance-Seed-OSS", {.begin = "<seed:think>", .end = "</seed:think>"}},
      {"Cohere2MoE",
       {.begin = "<|START_THINKING|>", .end = "<|END_THINKING|>", .content_begin = "<|START_TEXT|>"}},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use",
       {.begin = "<|START_THINKING|>", .end = "<|END_THINKING|>"}},
      {"GLM-4.6", kThink},
      {"GLM-4.7-Flash", kThink},
      {"GLM-5.2", kThink},
      {"HuggingFaceTB-SmolLM3-3B", kThink},
      {"Kimi-K2-Thinking", kThink},
      {"LFM2.5-Instruct", kThink},
      {"MiroThinker", kThink},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", kThink},
      {"Qwen-QwQ-32B", kThink},
      {"Qwen-Qwen3-0.6B", kThink},
      {"Qwen3.5-4B", kThink},
      {"Reka-Edge", kThink},
      {"StepFun3.5-Flash", kThink},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", kThink},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", kThink},
      {"deepseek-ai-DeepSeek-V3.1", kThink},
      {"deepseek-ai-DeepSeek-V3.2", kThink},
      {"deepseek-ai-DeepSeek-V4", kThink},
      {"ibm-granite-granite-3.3-2B-Instruct", kThink},
      {"llama-cpp-deepseek-r1", kThink},
      {"llama-cpp-rwkv-world", kThink},
      {"mistralai-Ministral-3-14B-Reasoning-2512", {.begin = "[THINK]", .end = "[/THINK]"}},
      {"openai-gpt-oss-120b", harmony_answer_format().reasoning},
      {"stepfun-ai-Step-3.5-Flash", kThink}};
  return kFormats;
}

using Json = nlohmann::json;

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"get_weather","description":"d","parameters":{"type":"object",)"
    R"("properties":{"city":{"type":"string","description":"d"},"days":{"type":"integer","description":"d"},)"
    R"("options":{"type":"object","description":"d"},"names":{"type":"array","description":"d"}},)"
    R"("required":[]}}},)"
    R"({"type":"function","function":{"name":"now","description":"d","parameters":{"type":"object",)"
    R"("properties":{},"required":[]}}}])";

std::vector<ToolCall> read_calls(const AnswerFormat& format, const std::string& answer) {
  AnswerParser parser({.format = {.calls = format.calls}, .reads_calls = true, .tools = kTools});
  std::vector<ToolCall> calls;
  for (std::size_t at = 0; at < answer.size() + 3; at += 3) {
    auto parts = at < answer.size() ? parser.push(std::string_view(answer).substr(at, 3)) : parser.finish();
    for (auto& delta : parts.calls) {
      if (delta.index == calls.size()) calls.push_back({.name = delta.name});
      calls.at(delta.index).arguments += delta.arguments;
    }
  }
  return calls;
}

}  // namespace

TEST_CASE("template data: calls that a template renders are read as they were, whatever they hold") {
  const auto directory = data_dir() / "chat_templates";
  if (is_data_missing(directory)) return;
  const std::string arguments[] = {
      R"({})", R"({"city": "Rome"})", R"({"city": "", "days": 0})",
      R"({"city": "7", "days": -3, "options": {"deep": {"er": [1, null, "}"]}}, "names": ["a", "b\"c"]})",
      R"({"city": "a \"quoted\" <b>\nline\n\n  of {text} \\ with \u00e9 and \u4e16", "names": []})"};
  std::size_t num_read = 0, num_written = 0;
  for (const auto* folder : {"templates", "templates_simple"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory / folder)) {
      const auto chat = ChatTemplate::parse(file_text(entry.path()));
      const ToolDialect& dialect = chat.tool_dialect();
      if (!(dialect.shows_calls || dialect.written) || !chat.answer_format().calls) continue;
      num_written += dialect.written ? 1 : 0;
      CAPTURE(entry.path().filename().string());
      // It writes nested values as Python does, which are no JSON.
      const bool spells_python = entry.path().filename() == "ByteDance-Seed-OSS.jinja";
      for (const auto& first : arguments) {
        if (spells_python && first.find("deep") != std::string::npos) continue;
        for (const std::size_t num_calls : {1, 2}) {
          std::vector<ToolCall> calls = {{.id = "abcdefgh1", .name = "get_weather", .arguments = first}};
          if (num_calls == 2) calls.push_back({.id = "abcdefgh2", .name = "now", .arguments = "{}"});
          auto answer = rendered_answer(chat, {.role = "assistant", .tool_calls = calls}, kTools);
          // Without a marker calls are looked for where the answer begins.
          if (!chat.answer_format().calls->has_marker())
            answer.erase(0, std::min(answer.find('{'), answer.size()));
          if (answer.find(calls.back().name) == std::string::npos) continue;  // it shows one call only
          CAPTURE(answer);
          const auto found = read_calls(chat.answer_format(), answer);
          REQUIRE(found.size() == num_calls);
          for (std::size_t i = 0; i < num_calls; ++i) {
            CHECK(found[i].name == calls[i].name);
            CHECK(Json::parse(found[i].arguments, nullptr, false) == Json::parse(calls[i].arguments));
          }
          ++num_read;
        }
      }
    }
  }
  CHECK(num_read > 300);
  CHECK(num_written >= 3);  // LFM2 and two of Kimi K2
}

TEST_CASE("template data: the formats of calls and reasoning are found by rendering") {
  const auto directory = data_dir() / "chat_templates";
  if (is_data_missing(directory)) return;
  const auto calls = call_formats();
  std::size_t num_templates = 0, num_expected = 0;
  for (const auto* folder : {"templates", "templates_simple"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory / folder)) {
      const auto name = entry.path().stem().string();
      CAPTURE(name);
      auto format = ChatTemplate::parse(file_text(entry.path())).answer_format();
      if (format.calls) format.calls->spelling.reset();  // call_spelling_data_test.cpp
      const auto expected = calls.find(name);
      if (expected == calls.end()) {
        CHECK(format.calls == CallFormat{.call_begin = "<tool_call>", .call_end = "</tool_call>"});
      } else {
        CHECK(format.calls == expected->second);
        ++num_expected;
      }
      const auto reasoning = reasoning_formats().find(name);
      CHECK(format.reasoning ==
            (reasoning == reasoning_formats().end() ? ReasoningFormat() : reasoning->second));
      ++num_templates;
    }
  }
  CHECK(num_templates >= 73);
  CHECK(num_expected == calls.size());
}

}  // namespace troupe
