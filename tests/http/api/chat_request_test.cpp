// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/openai_api.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/http/running_server.hpp"

using namespace troupe;

namespace chat_request_test {
namespace {

constexpr std::string_view kMessages = R"("messages":[{"role":"user","content":"hi"}])";

std::variant<ApiRequest, ApiError> parse(std::string_view body, const Limits& limits = {}) {
  return parse_chat_request(body, test::demo_models(), limits);
}
ApiRequest accepted(const std::string& more_fields) {
  const auto parsed =
      parse("{" + std::string(kMessages) + (more_fields.empty() ? "" : "," + more_fields) + "}");
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(more_fields, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiRequest>(parsed);
}
ApiError refused(const std::string& more_fields) {
  const auto parsed = parse("{" + std::string(kMessages) + "," + more_fields + "}");
  CAPTURE(more_fields);
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed);
}
std::vector<ChatMessage> messages(const std::string& list) {
  const auto parsed = parse("{\"messages\":" + list + "}");
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(list, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ChatPrompt>(std::get<ApiRequest>(parsed).generation.prompt).messages;
}
std::string wrong_field(const std::string& list) {
  const auto parsed = parse("{\"messages\":" + list + "}");
  CAPTURE(list);
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  CHECK(std::get<ApiError>(parsed).kind == ApiErrorKind::kInvalidRequest);
  return std::get<ApiError>(parsed).field.value_or("");
}

}  // namespace

TEST_CASE("chat request: what is left out has OpenAI's defaults") {
  const ApiRequest request = accepted("");
  const GenerationRequest& generation = request.generation;
  CHECK(generation.sampling.temperature == 1.0F);
  CHECK(generation.sampling.top_p == 1.0F);
  CHECK(generation.sampling.top_k == 0);
  CHECK(generation.sampling.min_p == 0.0F);
  CHECK(!generation.has_seed);
  CHECK(!generation.max_tokens.has_value());
  CHECK(generation.min_tokens == 0);
  CHECK(generation.stop.empty());
  CHECK(!generation.ignore_eos);
  CHECK(!request.stream);
  CHECK(!request.include_usage);
  CHECK(std::get<ChatPrompt>(generation.prompt).add_generation_prompt);
}

TEST_CASE("chat request: the model's generation_config replaces the defaults") {
  ServedModelInfo model = test::demo_model();
  model.defaults = {
      .temperature = 0.5F, .top_p = 0.9F, .min_p = 0.1F, .top_k = 40, .repetition_penalty = 1.1F};
  const auto parsed =
      parse_chat_request("{" + std::string(kMessages) + ",\"top_k\":-1}", ServedModels({model}), {});
  const auto& sampling = std::get<ApiRequest>(parsed).generation.sampling;
  CHECK(sampling.temperature == 0.5F);
  CHECK(sampling.top_p == 0.9F);
  CHECK(sampling.min_p == 0.1F);
  CHECK(sampling.repetition_penalty == 1.1F);
  CHECK(sampling.top_k == 0);
}

TEST_CASE("chat request: numbers are taken up to their bounds and refused beyond") {
  struct Row {
    std::string field, below, min, max, above;
  };
  const Row rows[] = {
      {"temperature", "-0.01", "0", "2", "2.01"},
      {"top_p", "0", "0.000001", "1", "1.01"},
      {"min_p", "-0.01", "0", "1", "1.01"},
      {"top_k", "-2", "-1", "1000000", "1000001"},
      {"max_tokens", "0", "1", "2147483647", "2147483648"},
      {"max_completion_tokens", "0", "1", "2147483647", "2147483648"},
      {"min_tokens", "-1", "0", "2048", "2049"},
      {"n", "0", "1", "128", "129"},
      {"seed", "-9223372036854775809", "-9223372036854775808", "18446744073709551615",
       "18446744073709551616"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.field);
    const std::string key = "\"" + row.field + "\":";
    accepted(key + row.min);
    accepted(key + row.max);
    accepted(key + "null");
    const bool is_out_of_json = row.field == "seed";  // too long for any number
    for (const auto& bad : {row.below, row.above}) {
      CHECK(refused(key + bad).field.value_or("") == (is_out_of_json ? "" : row.field));
    }
    for (const std::string bad : {"\"1\"", "true", "[1]", "{}"}) {
      const ApiError error = refused(key + bad);
      CHECK(error.field == row.field);
      CHECK(error.message.find(row.field + " must be") == 0);
    }
    for (const std::string bad : {"1e999", "NaN", "Infinity"}) refused(key + bad);
  }
}

TEST_CASE("chat request: integers may be written as floats, fractions are refused") {
  CHECK(accepted("\"max_tokens\":10.0").generation.max_tokens == 10);
  CHECK(refused("\"max_tokens\":10.5").field == "max_tokens");
  CHECK(refused("\"top_k\":1e300").field == "top_k");
}

TEST_CASE("chat request: max_completion_tokens wins, and more than the context is the context") {
  CHECK(accepted("\"max_tokens\":5,\"max_completion_tokens\":6").generation.max_tokens == 6);
  CHECK(accepted("\"max_tokens\":100000").generation.max_tokens == 2048);
  CHECK(accepted("\"max_tokens\":-1").generation.max_tokens == 2048);
  CHECK(refused("\"max_tokens\":-2").field == "max_tokens");
}

TEST_CASE("chat request: min_tokens beyond max_tokens is refused with both numbers") {
  const ApiError error = refused("\"max_tokens\":5,\"min_tokens\":6");
  CHECK(error.field == "min_tokens");
  CHECK(error.message.find("(5), got 6") != std::string::npos);
  CHECK(accepted("\"max_tokens\":5,\"min_tokens\":5").generation.min_tokens == 5);
}

TEST_CASE("chat request: a seed is a seed, 0 too, and negative ones as other servers take them") {
  CHECK(accepted("\"seed\":0").generation.has_seed);
  CHECK(accepted("\"seed\":42").generation.sampling.seed == 42);
  CHECK(accepted("\"seed\":-1").generation.sampling.seed == ~0ULL);
}

TEST_CASE("chat request: booleans are booleans") {
  CHECK(accepted("\"stream\":true").stream);
  CHECK(!accepted("\"stream\":null").stream);
  CHECK(accepted("\"ignore_eos\":true").generation.ignore_eos);
  CHECK(accepted("\"include_stop_str_in_output\":true").generation.include_stop_in_output);
  const ApiRequest request = accepted("\"add_generation_prompt\":false");
  CHECK(!std::get<ChatPrompt>(request.generation.prompt).add_generation_prompt);
  for (const std::string field :
       {"stream", "ignore_eos", "include_stop_str_in_output", "add_generation_prompt"}) {
    for (const std::string bad : {"1", "\"true\"", "[]"}) {
      CHECK(refused("\"" + field + "\":" + bad).field == field);
    }
  }
}

TEST_CASE("chat request: stream options") {
  const ApiRequest request = accepted(
      R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true,"include_obfuscation":false})");
  CHECK(request.include_usage);
  CHECK(request.continuous_usage_stats);
  CHECK(!accepted(R"("stream_options":null)").include_usage);
  CHECK(refused(R"("stream_options":true)").field == "stream_options");
  CHECK(refused(R"("stream_options":{"include_usage":1})").field == "stream_options.include_usage");
}

TEST_CASE("chat request: stop is nothing, a string or up to four") {
  CHECK(accepted("\"stop\":null").generation.stop.empty());
  CHECK(accepted("\"stop\":[]").generation.stop.empty());
  CHECK(accepted("\"stop\":\"x\"").generation.stop == std::vector<std::string>{"x"});
  CHECK(accepted(R"("stop":["a","b","c","d"])").generation.stop.size() == 4);
  accepted("\"stop\":\"" + std::string(256, 'x') + "\"");
  for (const std::string& bad :
       {std::string(R"(["a","b","c","d","e"])"), std::string("[1]"), std::string("7"), std::string("\"\""),
        std::string("{}"), "\"" + std::string(257, 'x') + "\""}) {
    CHECK(refused("\"stop\":" + bad).field == "stop");
  }
}

TEST_CASE("chat request: stop token ids") {
  CHECK(accepted("\"stop_token_ids\":[0,2147483647]").generation.stop_token_ids ==
        std::vector<std::int32_t>{0, 2147483647});
  std::string many = "0";
  for (int i = 0; i < 64; ++i) many += ",1";
  for (const std::string& bad : {std::string("[-1]"), std::string("[2147483648]"), std::string("[\"a\"]"),
                                 std::string("3"), "[" + many + "]"}) {
    CHECK(refused("\"stop_token_ids\":" + bad).field == "stop_token_ids");
  }
}

TEST_CASE("chat request: a cache salt is printable, without spaces and not too long") {
  CHECK(accepted("").generation.cache_salt.empty());
  CHECK(accepted("\"cache_salt\":\"tenant-7\"").generation.cache_salt == "tenant-7");
  for (const std::string& bad : {std::string("\"\""), std::string("\"a b\""), std::string("\"\u00e4\""),
                                 std::string("7"), "\"" + std::string(129, 'x') + "\""}) {
    CHECK(refused("\"cache_salt\":" + bad).field == "cache_salt");
  }
}

TEST_CASE(
    "chat request: the length of an answer is foretold to those servers only that set memory aside by it") {
  CHECK(refused(R"("troupe_answer_tokens":7)").field == "troupe_answer_tokens");
  ServedModelInfo model = test::demo_model();
  model.hears_lengths = true;
  const auto parsed = [&](const std::string& value) {
    return parse_chat_request("{" + std::string(kMessages) + ",\"troupe_answer_tokens\":" + value + "}",
                              ServedModels({model}), Limits{});
  };
  const auto request = parsed("7");
  REQUIRE(std::holds_alternative<ApiRequest>(request));
  CHECK(std::get<ApiRequest>(request).generation.foretold_tokens == 7U);
  for (const std::string bad : {"0", "-1", "1.5", "\"7\""}) {
    CAPTURE(bad);
    CHECK(std::holds_alternative<ApiError>(parsed(bad)));
  }
  CHECK_FALSE(accepted("").generation.foretold_tokens);
}

TEST_CASE("chat request: another model is not found, and its name does not flood the answer") {
  CHECK(std::get<ChatPrompt>(accepted("\"model\":\"demo\"").generation.prompt).messages.size() == 1);
  for (const std::string& name :
       {std::string("other"), std::string("../demo"), std::string(), std::string(100'000, 'x')}) {
    const ApiError error = refused("\"model\":\"" + name + "\"");
    CHECK(error.kind == ApiErrorKind::kModelNotFound);
    CHECK(error.field == "model");
    CHECK(error.message.size() < 250);
  }
  CHECK(refused("\"model\":7").kind == ApiErrorKind::kInvalidRequest);
}

TEST_CASE("chat request: fields that ask for nothing new are accepted") {
  for (const std::string field : {R"("n":1)",
                                  R"("n":null)",
                                  R"("logprobs":false)",
                                  R"("top_logprobs":0)",
                                  R"("presence_penalty":0)",
                                  R"("frequency_penalty":0.0)",
                                  R"("repetition_penalty":1)",
                                  R"("logit_bias":{})",
                                  R"("tools":[])",
                                  R"("tools":null)",
                                  R"("tool_choice":"none")",
                                  R"("tool_choice":"auto")",
                                  R"("response_format":{"type":"text"})",
                                  R"("modalities":["text"])",
                                  R"("user":"u")",
                                  R"("metadata":{"a":"b"})",
                                  R"("store":true)",
                                  R"("prompt_cache_key":"k")",
                                  R"("priority":3)",
                                  R"("service_tier":"auto")",
                                  R"("parallel_tool_calls":true)",
                                  R"("reasoning_effort":"low")",
                                  R"("skip_special_tokens":true)",
                                  R"("bad_words":[])",
                                  R"("chat_template_kwargs":{})",
                                  R"("request_id":"x")",
                                  R"("something_new":{"a":[1,2]})"}) {
    accepted(field);
  }
}

TEST_CASE("chat request: samplers that are not there may be switched off, as front ends do") {
  for (const std::string field :
       {R"("typical_p":1.0,"tfs":1,"tfs_z":1)", R"("mirostat":0,"mirostat_mode":0,"mirostat_tau":5)",
        R"("dry_multiplier":0,"dry_base":1.75,"xtc_probability":0,"xtc_threshold":0.1)",
        R"("top_a":0,"smoothing_factor":0,"dynatemp_range":0,"top_n_sigma":-1)",
        R"("return_tokens_as_token_ids":false,"thinking_token_budget":null)"})
    accepted(field);
}

TEST_CASE("chat request: lengths and penalties may have llama.cpp's names") {
  CHECK(accepted(R"("n_predict":7)").generation.max_tokens == 7);
  CHECK(accepted(R"("n_predict":7,"max_tokens":9)").generation.max_tokens == 9);
  CHECK(accepted(R"("n_predict":-1)").generation.max_tokens ==
        accepted(R"("max_tokens":-1)").generation.max_tokens);
  CHECK(accepted(R"("repeat_penalty":1.5)").generation.sampling.repetition_penalty == 1.5F);
  CHECK(
      accepted(R"("repeat_penalty":1.5,"repetition_penalty":1.25)").generation.sampling.repetition_penalty ==
      1.25F);
  CHECK(refused(R"("repeat_penalty":0)").field == "repeat_penalty");
  CHECK(refused(R"("n_predict":0)").field == "n_predict");
}

TEST_CASE("chat request: penalties are read, within their ranges") {
  const auto sampling = accepted(R"("presence_penalty":-2,"frequency_penalty":0.5,"repetition_penalty":1.25)")
                            .generation.sampling;
  CHECK(sampling.presence_penalty == -2.0F);
  CHECK(sampling.frequency_penalty == 0.5F);
  CHECK(sampling.repetition_penalty == 1.25F);
  CHECK(sampling.has_penalties());
  CHECK(!accepted(R"("presence_penalty":null,"frequency_penalty":0,"repetition_penalty":1)")
             .generation.sampling.has_penalties());
  for (const std::string field :
       {R"("presence_penalty":2.1)", R"("frequency_penalty":-2.01)", R"("presence_penalty":"1")",
        R"("repetition_penalty":0)", R"("repetition_penalty":-1)", R"("repetition_penalty":1e-60)",
        R"("repetition_penalty":true)"}) {
    const ApiError error = refused(field);
    CHECK(error.field == field.substr(1, field.find(':') - 2));
  }
  CHECK(refused(R"("presence_penalty":2.5)").message ==
        "presence_penalty must be a number from -2 to 2, got 2.5E0");
  CHECK(refused(R"("repetition_penalty":0)").message == "repetition_penalty must be greater than 0, got 0");
}

TEST_CASE("chat request: logprobs says whether, top_logprobs how many") {
  const auto top = [](const std::string& fields) {
    const ApiRequest request = accepted(fields);
    CHECK(request.wants_logprobs == request.generation.sampling.wants_logprobs());
    return request.generation.sampling.top_logprobs;
  };
  CHECK(top(R"("logprobs":false)") == SamplingParameters::kNoLogprobs);
  CHECK(top(R"("logprobs":false,"top_logprobs":0)") == SamplingParameters::kNoLogprobs);
  CHECK(top(R"("logprobs":true)") == 0);
  CHECK(top(R"("logprobs":true,"top_logprobs":20)") == 20);
  for (const std::string fields :
       {R"("logprobs":true,"top_logprobs":21)", R"("top_logprobs":3)", R"("logprobs":false,"top_logprobs":3)",
        R"("logprobs":true,"top_logprobs":-1)"})
    CHECK(refused(fields).field == "top_logprobs");
  CHECK(refused(R"("logprobs":1)").field == "logprobs");
}

TEST_CASE("chat request: fields that would change the answer are refused by name") {
  struct Row {
    std::string field, value;
  };
  const Row rows[] = {
      {"best_of", "2"},
      {"tool_choice", R"({"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}})"},
      {"functions", "[{}]"},
      {"function_call", R"({"name":"f"})"},
      {"audio", "{}"},
      {"modalities", R"(["text","audio"])"},
      {"allowed_token_ids", "[1]"},
      {"bad_words", R"(["x"])"},
      {"structured_outputs", R"({"json":{}})"},
      {"guided_json", "{}"},
      {"guided_regex", "\"a\""},
      {"guided_choice", "[]"},
      {"guided_grammar", "\"\""},
      {"echo", "true"},
      {"chat_template", "\"x\""},
      {"continue_final_message", "true"},
      {"use_beam_search", "true"},
      {"truncate_prompt_tokens", "5"},
      {"return_token_ids", "true"},
      {"skip_special_tokens", "false"},
      {"web_search_options", "{}"},
      {"add_special_tokens", "true"},
      {"logits_processors", "[1]"},
      {"length_penalty", "2"},
      {"logprob_token_ids", "[1]"},
      {"return_tokens_as_token_ids", "true"},
      {"spaces_between_special_tokens", "false"},
      {"thinking_token_budget", "100"},
      {"dry_multiplier", "0.8"},
      {"dynatemp_range", "0.5"},
      {"mirostat", "2"},
      {"mirostat_mode", "2"},
      {"smoothing_factor", "0.2"},
      {"tfs", "0.9"},
      {"tfs_z", "0.9"},
      {"top_a", "0.1"},
      {"top_n_sigma", "1.5"},
      {"typical_p", "0.9"},
      {"xtc_probability", "0.5"},
  };
  for (const auto& row : rows) {
    const ApiError error = refused("\"" + row.field + "\":" + row.value);
    CHECK(error.kind == ApiErrorKind::kInvalidRequest);
    CHECK(error.field == row.field);
    CHECK(error.message.find(row.field + " is not supported yet") == 0);
  }
}

TEST_CASE("chat request: a model can be told to reason or not, by vLLM's name and by OpenAI's") {
  const auto thinks = [](const ServedModelInfo& model, const std::string& fields) {
    const auto parsed = parse_chat_request(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}",
                                           ServedModels({model}), Limits{});
    const auto* error = std::get_if<ApiError>(&parsed);
    if (error != nullptr) return error->field.value_or("");
    const auto& prompt = std::get<ChatPrompt>(std::get<ApiRequest>(parsed).generation.prompt);
    return std::string(!prompt.thinks ? "unsaid" : *prompt.thinks ? "yes" : "no");
  };
  const ServedModelInfo plain = test::demo_model();
  ServedModelInfo thinker = plain, switched = plain;
  thinker.reasons = switched.reasons = switched.switches_reasoning = true;
  CHECK(thinks(switched, R"("user":"a")") == "unsaid");
  CHECK(thinks(switched, R"("reasoning_effort":"none")") == "no");
  CHECK(thinks(switched, R"("reasoning_effort":"high")") == "yes");
  CHECK(thinks(switched, R"("reasoning_effort":"none","chat_template_kwargs":{"thinking":true})") == "yes");
  for (const ServedModelInfo& model : {plain, thinker, switched}) {
    CHECK(thinks(model, R"("chat_template_kwargs":{"enable_thinking":false})") == "no");
    CHECK(thinks(model, R"("chat_template_kwargs":{})") == "unsaid");
    for (const std::string other : {"", "auto", "default", "a lot"})
      CHECK(thinks(model, R"("reasoning_effort":")" + other + "\"") == "unsaid");
    CHECK(thinks(model, R"("reasoning_effort":1)") == "reasoning_effort");
    CHECK(thinks(model, R"("chat_template_kwargs":7)") == "chat_template_kwargs");
    CHECK(thinks(model, R"("chat_template_kwargs":{"a":1})") == "chat_template_kwargs.a");
    CHECK(thinks(model, R"("chat_template_kwargs":{"thinking":1})") == "chat_template_kwargs.thinking");
  }
  CHECK(thinks(plain, R"("reasoning_effort":"none")") == "unsaid");
  CHECK(thinks(thinker, R"("reasoning_effort":"low")") == "unsaid");
  CHECK(thinks(thinker, R"("reasoning_effort":"none")") == "unsaid");
}

TEST_CASE("chat request: logit_bias gives tokens a bias each") {
  const auto biased = [](const std::string& value) {
    return accepted("\"logit_bias\":" + value).generation.biased;
  };
  CHECK(biased("{}").empty());
  CHECK(biased(R"({"7":-100,"5":1.5})") == std::vector<TokenBias>{{5, 1.5F}, {7, -100.0F}});
  std::string many = "{\"0\":0";
  for (int id = 1; id < 1025; ++id) many += ",\"" + std::to_string(id) + "\":1";
  for (const std::string& wrong : {std::string("[]"), std::string(R"({"x":1})"), std::string(R"({"-1":1})"),
                                   std::string(R"({"1 ":1})"), std::string(R"({"99999999999":1})"),
                                   std::string(R"({"1":101})"), std::string(R"({"1":"1"})"), many + "}"})
    CHECK(refused("\"logit_bias\":" + wrong).field == "logit_bias");
}

TEST_CASE("chat request: the form of an answer is asked for in one of three ways") {
  const auto form = [](const std::string& fields) { return accepted(fields).generation.form; };
  CHECK_FALSE(form(R"("response_format":{"type":"text"},"grammar":"","regex":null)"));
  CHECK(form(R"("response_format":{"type":"json_object"})")->kind == OutputForm::Kind::kJsonObject);
  const auto schema = form(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"null"}}})");
  CHECK(schema->kind == OutputForm::Kind::kJsonSchema);
  CHECK(schema->text == R"({"type":"null"})");
  CHECK(schema->field == "response_format.json_schema.schema");
  CHECK(form(R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})")->kind ==
        OutputForm::Kind::kJsonObject);
  CHECK(form(R"("grammar":"root ::= \"a\"")")->text == "root ::= \"a\"");
  CHECK(form(R"("regex":"a|b")")->kind == OutputForm::Kind::kRegex);
}

TEST_CASE("chat request: a form that is unclear, twice there or in conflict is refused by name") {
  const std::pair<std::string, std::string> rows[] = {
      {R"("response_format":"text")", "response_format"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":7}})",
       "response_format.json_schema.schema"},
      {R"("grammar":7)", "grammar"},
      {R"("regex":[])", "regex"},
      {R"("regex":"a","grammar":"b")", "regex"},
      {R"("response_format":{"type":"json_object"},"regex":"a")", "regex"},
      {R"("regex":"a","min_tokens":1)", "min_tokens"},
      {R"("regex":"a","ignore_eos":true)", "ignore_eos"},
  };
  for (const auto& [fields, field] : rows) {
    CAPTURE(fields);
    CHECK(refused(fields).field == field);
  }
}

TEST_CASE("chat request: message content is text, parts of text, or null from the assistant") {
  const auto read = messages(
      R"([{"role":"system","content":"s"},{"role":"developer","content":"d"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"x"},
          {"role":"assistant","content":null,"tool_calls":[],"refusal":null},
          {"role":"tool","content":"t","tool_call_id":"1"},{"role":"user","content":""},
          {"role":"user","content":[]}])");
  REQUIRE(read.size() == 7);
  CHECK(read[1].role == "developer");
  CHECK(read[2].content == "a\nb");
  CHECK(read[3].content.empty());
  CHECK(read[4].role == "tool");
}

TEST_CASE("chat request: what is wrong with a message is named with its place") {
  CHECK(wrong_field("null") == "messages");
  CHECK(wrong_field("[]") == "messages");
  CHECK(wrong_field("\"hi\"") == "messages");
  CHECK(wrong_field("[1]") == "messages[0]");
  CHECK(wrong_field(R"([{"content":"x"}])") == "messages[0].role");
  CHECK(wrong_field(R"([{"role":"bot","content":"x"}])") == "messages[0].role");
  CHECK(wrong_field(R"([{"role":1,"content":"x"}])") == "messages[0].role");
  CHECK(wrong_field(R"([{"role":"user"}])") == "messages[0].content");
  CHECK(wrong_field(R"([{"role":"user","content":null}])") == "messages[0].content");
  CHECK(wrong_field(R"([{"role":"user","content":5}])") == "messages[0].content");
  CHECK(wrong_field(R"([{"role":"user","content":"x"},{"role":"user","content":[7]}])") ==
        "messages[1].content[0]");
  CHECK(wrong_field(R"([{"role":"user","content":[{"text":"x"}]}])") == "messages[0].content[0].type");
  CHECK(wrong_field(R"([{"role":"user","content":[{"type":"text"}]}])") == "messages[0].content[0].text");
  CHECK(
      wrong_field(
          R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}])") ==
      "messages[0].content[1].type");
  CHECK(wrong_field(R"([{"role":"assistant","content":null,"function_call":{"name":"f"}}])") ==
        "messages[0].function_call");
}

TEST_CASE("chat request: the number of messages and parts is limited") {
  std::string many = "[";
  for (int i = 0; i < 1024; ++i) many += R"({"role":"user","content":"x"},)";
  CHECK(messages(many.substr(0, many.size() - 1) + "]").size() == 1024);
  CHECK(wrong_field(many + R"({"role":"user","content":"x"}])") == "messages");
  std::string parts;
  for (int i = 0; i < 64; ++i) parts += R"({"type":"text","text":""},)";
  messages(R"([{"role":"user","content":[)" + parts.substr(0, parts.size() - 1) + "]}]");
  CHECK(wrong_field(R"([{"role":"user","content":[)" + parts + R"({"type":"text","text":""}]}])") ==
        "messages[0].content");
}

TEST_CASE("chat request: the body must be an object") {
  for (const std::string_view body : {"[]", "3", "\"x\"", "null", "", "{"}) {
    CHECK(std::holds_alternative<ApiError>(parse(body)));
  }
}

TEST_CASE("chat request: any prefix and any changed byte of a good body is answered, not crashed on") {
  const std::string body =
      "{" + std::string(kMessages) + R"(,"model":"demo","stop":["a"],"temperature":0.5,"stream":true})";
  for (std::size_t i = 0; i < body.size(); ++i) {
    CHECK(std::holds_alternative<ApiError>(parse(body.substr(0, i))));
    for (const char c : {'\0', '"', '{', ']', '9', '\xFF'}) {
      std::string changed = body;
      changed[i] = c;
      parse(changed);
    }
  }
}

}  // namespace chat_request_test
