// SPDX-License-Identifier: Apache-2.0
#include "http/api/openapi/request_fields.hpp"

#include <array>

namespace troupe {
namespace {

constexpr std::string_view kBoolean = R"({"type":"boolean"})";
constexpr std::string_view kText = R"({"type":"string"})";
constexpr std::string_view kObject = R"({"type":"object"})";
constexpr std::string_view kList = R"({"type":"array"})";
constexpr std::string_view kTokenCount = R"({"type":"integer","minimum":1,"maximum":2147483647})";
// -1: as many as there is room for.
constexpr std::string_view kTokenLimit = R"({"type":"integer","minimum":-1,"maximum":2147483647})";
constexpr std::string_view kTexts = R"({"type":["string","array"],"items":{"type":"string"},"maxItems":4})";
constexpr std::string_view kObjects = R"({"type":"array","items":{"type":"object"},"minItems":1})";
constexpr std::string_view kPrompts =
    R"({"type":["string","array"],"minItems":1,"items":{"anyOf":[{"type":"string"},)"
    R"({"type":"integer","minimum":0,"maximum":2147483647},)"
    R"({"type":"array","minItems":1,"items":{"type":"integer","minimum":0,"maximum":2147483647}}]}})";
constexpr std::string_view kPenalty = R"({"type":"number","minimum":-2,"maximum":2})";
constexpr std::string_view kUpTo20 = R"({"type":"integer","minimum":0,"maximum":20})";
constexpr std::string_view kChoices = R"({"type":"integer","minimum":1,"maximum":128})";
constexpr std::string_view kToolChoice = R"({"type":["string","object"]})";

// Of all that generate.
constexpr std::array kGenerating = {
    RequestField{"model", kText},
    RequestField{"temperature", R"({"type":"number","minimum":0,"maximum":2})"},
    RequestField{"top_p", R"({"type":"number","exclusiveMinimum":0,"maximum":1})"},
    RequestField{"top_k", R"({"type":"integer","minimum":-1,"maximum":1000000})"},
    RequestField{"min_p", R"({"type":"number","minimum":0,"maximum":1})"},
    RequestField{"seed", R"({"type":"integer"})"},
    RequestField{"presence_penalty", kPenalty},
    RequestField{"frequency_penalty", kPenalty},
    RequestField{"repetition_penalty", R"({"type":"number","exclusiveMinimum":0,"maximum":1000})"},
    RequestField{"repeat_penalty", R"({"type":"number","exclusiveMinimum":0,"maximum":1000})"},
    RequestField{"logit_bias", R"({"type":"object","maxProperties":1024,)"
                               R"("additionalProperties":{"type":"number","minimum":-100,"maximum":100}})"},
    RequestField{"min_tokens", R"({"type":"integer","minimum":0,"maximum":2147483647})"},
    RequestField{"ignore_eos", kBoolean},
    RequestField{"stream", kBoolean},
    RequestField{"stream_options",
                 R"({"type":"object","properties":{"include_usage":{"type":"boolean"},)"
                 R"("continuous_usage_stats":{"type":"boolean"},"resumable":{"type":"boolean"}}})"},
    RequestField{"grammar", kText},
    RequestField{"regex", kText},
    RequestField{"troupe_answer_tokens", kTokenCount},
    RequestField{"cache_salt", R"({"type":"string","minLength":1,"maxLength":128,"pattern":"^[!-~]+$"})"},
};

constexpr std::array kChatsAndCompletions = {
    RequestField{"max_tokens", kTokenLimit},
    RequestField{"max_completion_tokens", kTokenLimit},
    RequestField{"n_predict", kTokenLimit},
    RequestField{"n", kChoices},
    RequestField{"prompt_logprobs", kUpTo20},
    RequestField{"stop", kTexts},
    RequestField{
        "stop_token_ids",
        R"({"type":"array","maxItems":64,"items":{"type":"integer","minimum":0,"maximum":2147483647}})"},
    RequestField{"include_stop_str_in_output", kBoolean},
    RequestField{"response_format", kObject},
};

// The prompt of a chat, run or merely encoded.
constexpr std::array kMessages = {
    RequestField{"tools", R"({"type":"array","maxItems":128,"items":{"type":"object"}})"},
    RequestField{"tool_choice", kToolChoice},
    RequestField{"parallel_tool_calls", kBoolean},
    RequestField{"add_generation_prompt", kBoolean},
    RequestField{"reasoning_effort", kText},
    RequestField{"chat_template_kwargs",
                 R"({"type":"object","additionalProperties":false,"properties":)"
                 R"({"enable_thinking":{"type":"boolean"},"thinking":{"type":"boolean"}}})"},
};

constexpr std::array kChat = {
    RequestField{"messages", kObjects, true},
    RequestField{"logprobs", kBoolean},
    RequestField{"top_logprobs", kUpTo20},
};

constexpr std::array kCompletion = {
    RequestField{"prompt", kPrompts, true},
    RequestField{"add_special_tokens", kBoolean},
    RequestField{"suffix", kText},
    RequestField{"echo", kBoolean},
    RequestField{"best_of", kChoices},
    RequestField{"use_beam_search", kBoolean},
    RequestField{"length_penalty", R"({"type":"number","minimum":-10,"maximum":10})"},
    RequestField{"early_stopping", R"({"type":["boolean","string"],"enum":[false,true,"never"]})"},
    // false: none.
    RequestField{"logprobs", R"({"type":["integer","boolean"],"minimum":0,"maximum":5})"},
};

constexpr std::array kResponse = {
    RequestField{"input", R"({"type":["string","array"],"items":{"type":"object"},"minItems":1})", true},
    RequestField{"instructions", kText},
    RequestField{"previous_response_id", R"({"type":"string","maxLength":128})"},
    RequestField{"store", kBoolean},
    RequestField{"background", kBoolean},
    RequestField{"max_output_tokens", kTokenCount},
    RequestField{"top_logprobs", kUpTo20},
    RequestField{"include", R"({"type":"array","items":{"type":"string",)"
                            R"("enum":["message.output_text.logprobs","reasoning.encrypted_content"]}})"},
    RequestField{"metadata", R"({"type":"object","maxProperties":16,)"
                             R"("additionalProperties":{"type":"string","maxLength":512}})"},
    RequestField{"user", R"({"type":"string","maxLength":512})"},
    RequestField{"reasoning", R"({"type":"object","properties":{"effort":{"type":"string"}}})"},
    RequestField{"text", R"({"type":"object","properties":{"format":{"type":"object"}}})"},
    RequestField{"tools", R"({"type":"array","maxItems":128,"items":{"type":"object"}})"},
    RequestField{"tool_choice", kToolChoice},
    RequestField{"parallel_tool_calls", kBoolean},
};

// Anthropic's, whose prompt alone is counted.
constexpr std::array kMessagesPrompt = {
    RequestField{"messages", kObjects, true},
    RequestField{"system", R"({"type":["string","array"],"items":{"type":"object"}})"},
    RequestField{"tools", R"({"type":"array","maxItems":128,"items":{"type":"object"}})"},
    RequestField{"tool_choice", kObject},
    RequestField{"thinking",
                 R"({"type":"object","required":["type"],"properties":{"type":{"type":"string"}}})"},
};
constexpr std::array kMessage = {
    RequestField{"max_tokens", kTokenCount, true},
    RequestField{"stop_sequences", kTexts},
    RequestField{"output_config", R"({"type":"object","properties":{"format":{"type":"object"}}})"},
};
constexpr std::array kModelOnly = {RequestField{"model", kText}};

constexpr std::array kTruncating = {
    RequestField{"truncate", kBoolean},
    RequestField{"truncate_prompt_tokens", R"({"type":"integer","minimum":-1,"maximum":2147483647})"},
};
constexpr std::array kEmbedding = {
    RequestField{"input", kPrompts, true},
    RequestField{"encoding_format", R"({"type":"string","enum":["float","base64"]})"},
    RequestField{"dimensions", R"({"type":"integer","minimum":1})"},
    RequestField{"prompt_name", kText},
    RequestField{"user", kText},
};
// Of classes, scores and ranks.
constexpr std::array kActivating = {
    RequestField{"use_activation", kBoolean},
    RequestField{"softmax", kBoolean},
    RequestField{"activation", kBoolean},
    RequestField{"raw_scores", kBoolean},
};
// Objects: trees, of models that classify these.
constexpr std::array kClassification = {RequestField{
    "input",
    R"({"type":["string","array","object"],"minItems":1,"items":{"anyOf":[{"type":["string","object"]},)"
    R"({"type":"integer","minimum":0,"maximum":2147483647},)"
    R"({"type":"array","minItems":1,"items":{"type":"integer","minimum":0,"maximum":2147483647}}]}})",
    true}};
constexpr std::array kScore = {
    RequestField{"text_1", R"({"type":["string","array"],"minItems":1})", true},
    RequestField{"text_2", R"({"type":["string","array"],"minItems":1})", true},
};
constexpr std::array kRerank = {
    RequestField{"query", R"({"type":"string","minLength":1})", true},
    RequestField{"documents", R"({"type":"array","minItems":1,"items":{"type":["string","object"]}})", true},
    RequestField{"top_n", R"({"type":"integer","minimum":0,"maximum":2147483647})"},
    RequestField{"return_documents", kBoolean},
};
// A text or a chat.
constexpr std::array kTokenize = {
    RequestField{"prompt", kText},
    RequestField{"messages", kObjects},
    RequestField{"add_special_tokens", kBoolean},
    RequestField{"return_token_strs", kBoolean},
};
constexpr std::array kDetokenize = {
    RequestField{
        "tokens",
        R"({"type":"array","maxItems":16384,"items":{"type":"integer","minimum":0,"maximum":2147483647}})",
        true},
};

constexpr std::string_view kChatExample = R"({"messages":[{"role":"user","content":"Count from 3 to 7."}]})";

}  // namespace

const std::vector<RequestBody>& request_bodies() {
  static const std::vector<RequestBody> kBodies = {
      {.route = Route::kChatCompletions,
       .name = "ChatCompletionRequest",
       .fields = {kGenerating, kChatsAndCompletions, kMessages, kChat},
       .example = kChatExample},
      {.route = Route::kCompletions,
       .name = "CompletionRequest",
       .fields = {kGenerating, kChatsAndCompletions, kCompletion},
       .example = R"({"prompt":"Spell the word cat."})"},
      {.route = Route::kResponses,
       .name = "ResponseRequest",
       .fields = {kGenerating, kResponse},
       .example = R"({"input":"Count from 3 to 7."})"},
      {.route = Route::kMessages,
       .name = "MessageRequest",
       .fields = {kGenerating, kMessagesPrompt, kMessage},
       .example = R"({"max_tokens":50,"messages":[{"role":"user","content":"Count from 3 to 7."}]})"},
      {.route = Route::kCountTokens,
       .name = "CountTokensRequest",
       .fields = {kModelOnly, kMessagesPrompt},
       .example = kChatExample},
      {.route = Route::kEmbeddings,
       .name = "EmbeddingRequest",
       .fields = {kModelOnly, kTruncating, kEmbedding},
       .example = R"({"input":["a cat","a dog"]})"},
      {.route = Route::kClassify,
       .name = "ClassificationRequest",
       .fields = {kModelOnly, kTruncating, kActivating, kClassification},
       .example = R"({"input":["a cat","a dog"]})"},
      {.route = Route::kScore,
       .name = "ScoreRequest",
       .fields = {kModelOnly, kTruncating, kActivating, kScore},
       .example = R"({"text_1":"Who counts?","text_2":["Ada counts.","It rains."]})"},
      {.route = Route::kRerank,
       .name = "RerankRequest",
       .fields = {kModelOnly, kTruncating, kActivating, kRerank},
       .example = R"({"query":"Who counts?","documents":["Ada counts.","It rains."]})"},
      {.route = Route::kTokenize,
       .name = "TokenizeRequest",
       .fields = {kModelOnly, kMessages, kTokenize},
       .example = R"({"prompt":"Spell the word cat."})"},
      {.route = Route::kDetokenize,
       .name = "DetokenizeRequest",
       .fields = {kModelOnly, kDetokenize},
       .example = R"({"tokens":[1,2,3]})"},
  };
  return kBodies;
}

}  // namespace troupe
