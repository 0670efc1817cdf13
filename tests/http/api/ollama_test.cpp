// SPDX-License-Identifier: Apache-2.0
// Ollama's API: bodies, answers and streams of a scripted engine, on a port of its own.
#include "http/api/answers/ollama/ollama_models.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "http/api/answers/ollama/ollama_writer.hpp"
#include "tests/http/running_server.hpp"

using namespace troupe;
using namespace troupe::test;

namespace json = boost::json;

namespace ollama_test {
namespace {

ServedModelInfo thinking_model() {
  ServedModelInfo model = demo_model();
  model.name = "thinker";
  model.calls_tools = model.reasons = true;
  model.facts = {.format = "safetensors",
                 .family = "qwen3",
                 .weight_type = "BF16",
                 .num_parameters = 3'512'345,
                 .width = 256,
                 .num_layers = 4,
                 .size_bytes = 7'000'000,
                 .memory_bytes = 9'000'000,
                 .is_on_gpu = false,
                 .digest = std::string(64, 'a'),
                 .modified = 1'700'000'000};
  return model;
}
ServedModelInfo switched_model() {
  ServedModelInfo model = thinking_model();
  model.name = "switched";
  model.switches_reasoning = true;
  return model;
}
ServedModels models() {
  return ServedModels({demo_model(), thinking_model(), embedding_model(), switched_model()});
}

using Parser = std::variant<ApiRequest, ApiError> (*)(std::string_view, const ServedModels&, const Limits&);

ApiRequest accepted(Parser parse, const std::string& body) {
  const auto parsed = parse(body, models(), Limits{});
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(body, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiRequest>(parsed);
}
std::string wrong_field(Parser parse, const std::string& body) {
  const auto parsed = parse(body, models(), Limits{});
  CAPTURE(body);
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed).field.value_or("");
}
std::string chat_with(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) + "}";
}
ApiRequest chat(const std::string& more) { return accepted(parse_ollama_chat_request, chat_with(more)); }
std::string wrong_in_chat(const std::string& more) {
  return wrong_field(parse_ollama_chat_request, chat_with(more));
}
ApiRequest generate(const std::string& body) { return accepted(parse_ollama_generate_request, body); }

void serve_ollama(ServerOptions& options) { options.ollama_port = 0; }

// A server with Ollama's port, and a client of it.
struct OllamaServer : RunningServer {
  OllamaServer() : RunningServer({thinking_model(), embedding_model()}, serve_ollama) {}
  TestClient client() { return TestClient(server().ollama_port()); }
  TestResponse ask(const std::string& request) {
    TestClient asking = client();
    asking.send(request);
    return asking.read_response();
  }
};

std::vector<json::object> lines_of(const std::string& body) {
  std::vector<json::object> lines;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find('\n', at);
    REQUIRE(end != std::string::npos);
    lines.push_back(json::parse(body.substr(at, end - at)).as_object());
    at = end + 1;
  }
  return lines;
}

// Thoughts, a text, a call in pieces and one that the model wrote badly.
void answer_with_calls(EngineScript& script) {
  const RequestId id = script.wait_for_request(1);
  script.deliver(id, Accepted{.prompt_tokens = 5});
  script.deliver(id, TextDelta{.text = "", .usage = {}, .reasoning = "hm"});
  script.deliver(id, TextDelta{.text = "Wait.", .usage = {}});
  script.deliver(id,
                 TextDelta{.text = "",
                           .usage = {},
                           .calls = {{.index = 0, .id = "call_0", .name = "f", .arguments = "{\"a\":\n"}}});
  script.deliver(id, TextDelta{.text = "", .usage = {}, .calls = {{.index = 0, .arguments = "1}"}}});
  script.deliver(id, TextDelta{.text = "",
                               .usage = {},
                               .calls = {{.index = 1, .id = "call_1", .name = "g", .arguments = "{no"}}});
  Finished finished;
  finished.called_tools = true;
  finished.usage = {.prompt_tokens = 5, .completion_tokens = 9};
  finished.timings.total = std::chrono::nanoseconds(100);
  finished.timings.load = std::chrono::nanoseconds(1);
  finished.timings.prefill = std::chrono::nanoseconds(20);
  finished.timings.decode = std::chrono::nanoseconds(70);
  script.deliver(id, finished);
}

const std::string kCalls =
    R"([{"id":"call_0","function":{"index":0,"name":"f","arguments":{"a":1}}},)"
    R"({"id":"call_1","function":{"index":1,"name":"g","arguments":{"INVALID_JSON":"{no"}}}])";

void check_end(const json::object& end) {
  CHECK(end.at("done") == true);
  CHECK(end.at("done_reason") == "stop");
  CHECK(end.at("total_duration") == 100);
  CHECK(end.at("load_duration") == 0);
  CHECK(end.at("prompt_eval_count") == 5);
  CHECK(end.at("prompt_eval_duration") == 21);
  CHECK(end.at("eval_count") == 9);
  CHECK(end.at("eval_duration") == 70);
}

}  // namespace

TEST_CASE("ollama: a stream is the default, options are an object of their own") {
  const auto request = chat(
      R"("model":"demo:latest","options":{"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"seed":7,)"
      R"("num_predict":9,"stop":["END"],"repeat_penalty":1.5,"presence_penalty":0.25,"frequency_penalty":0.75,)"
      R"("num_ctx":4096,"num_gpu":1,"num_thread":8,"never_heard_of":1},"keep_alive":"5m")");
  CHECK(request.shape == ResponseShape::kOllamaChat);
  CHECK(request.stream);
  CHECK(request.called_model == "demo:latest");
  CHECK_FALSE(request.only_loads);
  const GenerationRequest& generation = request.generation;
  CHECK(generation.model == 0);
  CHECK(generation.sampling.temperature == 0.5F);
  CHECK(generation.sampling.top_k == 3);
  CHECK(generation.sampling.top_p == 0.9F);
  CHECK(generation.sampling.min_p == 0.1F);
  CHECK(generation.sampling.seed == 7);
  CHECK(generation.sampling.repetition_penalty == 1.5F);
  CHECK(generation.sampling.presence_penalty == 0.25F);
  CHECK(generation.sampling.frequency_penalty == 0.75F);
  CHECK(generation.max_tokens == 9);
  CHECK(generation.stop == std::vector<std::string>{"END"});
  CHECK_FALSE(chat(R"("stream":false)").stream);
  CHECK(chat("").called_model == "demo");
}

TEST_CASE("ollama: numbers that mean any or all") {
  CHECK_FALSE(chat(R"("options":{"num_predict":-1})").generation.max_tokens);
  CHECK_FALSE(chat(R"("options":{"num_predict":-2})").generation.max_tokens);
  CHECK(chat(R"("options":{"num_predict":1000000})").generation.max_tokens == 2048);
  CHECK_FALSE(chat(R"("options":{"seed":-1})").generation.has_seed);
  CHECK(chat(R"("options":{"seed":0})").generation.has_seed);
  CHECK(chat(R"("options":{"repeat_last_n":64,"repeat_penalty":1.0})").generation.sampling.seed == 0);
  CHECK(chat(R"("options":{"repeat_last_n":-1,"repeat_penalty":1.1})").generation.sampling.seed == 0);
}

TEST_CASE("ollama: a window of penalties goes with the model's own penalty, not with one that is asked for") {
  ServedModelInfo model = demo_model();
  model.defaults.repetition_penalty = 1.1F;
  const auto parsed_with = [&](const std::string& options) {
    return parse_ollama_chat_request(
        R"({"messages":[{"role":"user","content":"a"}],"options":)" + options + "}", ServedModels({model}),
        {});
  };
  const auto parsed = parsed_with(R"({"repeat_last_n":64})");
  REQUIRE(std::holds_alternative<ApiRequest>(parsed));
  CHECK(std::get<ApiRequest>(parsed).generation.sampling.repetition_penalty == 1.1F);
  CHECK(std::holds_alternative<ApiError>(parsed_with(R"({"repeat_last_n":64,"repeat_penalty":1.1})")));
}

TEST_CASE("ollama: a format is any JSON object or a schema") {
  CHECK_FALSE(chat("").generation.form);
  CHECK_FALSE(chat(R"("format":"")").generation.form);
  REQUIRE(chat(R"("format":"json")").generation.form);
  CHECK(chat(R"("format":"json")").generation.form->kind == OutputForm::Kind::kJsonObject);
  const auto request = chat(R"("format":{"type":"object"})");
  REQUIRE(request.generation.form);
  CHECK(request.generation.form->kind == OutputForm::Kind::kJsonSchema);
  CHECK(request.generation.form->text == R"({"type":"object"})");
  CHECK(request.generation.form->field == "format");
}

TEST_CASE("ollama: messages have thoughts, calls with objects, and results by a tool's name") {
  const auto request = accepted(
      parse_ollama_chat_request,
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi","images":[]},)"
      R"({"role":"assistant","content":"","thinking":"h","tool_calls":[{"function":{"name":"f",)"
      R"("arguments":{"a":1}}}]},{"role":"tool","content":"42","tool_name":"f"}],)"
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]})");
  const auto& prompt = std::get<ChatPrompt>(request.generation.prompt);
  REQUIRE(prompt.messages.size() == 4);
  CHECK(prompt.messages[2].reasoning == "h");
  REQUIRE(prompt.messages[2].tool_calls.size() == 1);
  CHECK(prompt.messages[2].tool_calls[0].name == "f");
  CHECK(prompt.messages[2].tool_calls[0].arguments == R"({"a":1})");
  CHECK(prompt.messages[3].name == "f");
  CHECK(prompt.splits_answer);
  CHECK(prompt.tools.find("\"f\"") != std::string::npos);
}

TEST_CASE("ollama: a model whose template switches reasoning thinks as it is told") {
  const auto thinks = [](const std::string& more) {
    return std::get<ChatPrompt>(chat(R"("model":"switched")" + more).generation.prompt).thinks;
  };
  CHECK(thinks("") == std::nullopt);
  CHECK(thinks(R"(,"think":false)") == false);
  CHECK(thinks(R"(,"think":true)") == true);
  CHECK(thinks(R"(,"think":"low")") == true);
  const auto text = generate(R"({"model":"switched","prompt":"a","think":false})");
  CHECK(std::get<ChatPrompt>(text.generation.prompt).thinks == false);
}

TEST_CASE("ollama: a suffix makes a text that is filled in, without a template") {
  const auto request = generate(R"({"model":"thinker","prompt":"a","suffix":"b","think":false})");
  CHECK(std::get<TextPrompt>(request.generation.prompt).text == "a");
  CHECK(std::get<TextPrompt>(request.generation.prompt).suffix == "b");
  const auto at_the_beginning = generate(R"({"prompt":"","suffix":"b"})");
  CHECK_FALSE(at_the_beginning.only_loads);
  CHECK(std::get<TextPrompt>(at_the_beginning.generation.prompt).suffix == "b");
  CHECK(wrong_field(parse_ollama_generate_request, R"({"prompt":"a","suffix":"b","system":"s"})") ==
        "system");
  CHECK(wrong_field(parse_ollama_generate_request,
                    R"({"model":"thinker","prompt":"a","suffix":"b","think":true})") == "think");
}

TEST_CASE("ollama: thinking can be asked for as the model does it anyway") {
  for (const std::string think : {"true", "\"high\"", "null"})
    CHECK(chat(R"("model":"thinker","think":)" + think).generation.model == 1);
  CHECK(chat(R"("think":false)").generation.model == 0);
  CHECK(wrong_in_chat(R"("think":true)") == "think");
  CHECK(wrong_in_chat(R"("model":"thinker","think":false)") == "think");
  CHECK(wrong_in_chat(R"("model":"thinker","think":"a lot")") == "think");
  CHECK(wrong_in_chat(R"("model":"thinker","think":1)") == "think");
}

TEST_CASE("ollama: a prompt is a chat of one message, or the text as it is") {
  const auto request = generate(R"({"prompt":"hi","system":"s"})");
  CHECK(request.shape == ResponseShape::kOllamaGenerate);
  const auto& prompt = std::get<ChatPrompt>(request.generation.prompt);
  REQUIRE(prompt.messages.size() == 2);
  CHECK(prompt.messages[0].role == "system");
  CHECK(prompt.messages[1].content == "hi");
  CHECK(prompt.splits_answer);
  const auto raw = generate(R"({"prompt":"hi","raw":true})");
  CHECK(std::get<TextPrompt>(raw.generation.prompt).text == "hi");
  CHECK(std::get<TextPrompt>(raw.generation.prompt).reads_special_tokens);
  const auto filled = generate(R"({"prompt":"hi","suffix":"."})");
  CHECK_FALSE(std::get<TextPrompt>(filled.generation.prompt).reads_special_tokens);
}

TEST_CASE("ollama: without a prompt a model is to be loaded, and can't be unloaded") {
  CHECK(accepted(parse_ollama_chat_request, R"({"model":"demo"})").only_loads);
  CHECK(accepted(parse_ollama_chat_request, R"({"model":"demo","messages":[]})").only_loads);
  CHECK(generate(R"({"model":"demo","keep_alive":-1})").only_loads);
  CHECK_FALSE(generate(R"({"prompt":"hi","keep_alive":0})").only_loads);
  for (const std::string keep_alive : {"\"5m\"", "\"1h30m\"", "\"-1s\"", "\"1.5h\"", "\"0h5ms\"", "0.5"})
    CHECK(generate(R"({"model":"demo","keep_alive":)" + keep_alive + "}").only_loads);
  for (const std::string keep_alive :
       {"0", "0.0", "\"0\"", "\"0s\"", "\"0m\"", "\"0h\"", "\"0ms\"", "\"00s\"", "\"-0s\"", "\"0h0.0m\""})
    CHECK(wrong_field(parse_ollama_generate_request, R"({"keep_alive":)" + keep_alive + "}") == "keep_alive");
}

TEST_CASE("ollama: what is wrong or not supported is named") {
  for (const auto& [field, value] : {std::pair{"options", "7"},
                                     {"stream", "1"},
                                     {"format", "\"xml\""},
                                     {"format", "7"},
                                     {"keep_alive", "true"},
                                     {"keep_alive", "\"banana\""},
                                     {"keep_alive", "\"\""},
                                     {"keep_alive", "\"5\""},
                                     {"keep_alive", "\"5m,\""},
                                     {"keep_alive", "\".s\""},
                                     {"keep_alive", "\"1.2.3s\""},
                                     {"truncate", "true"},
                                     {"shift", "true"},
                                     {"template", "\"t\""},
                                     {"model", "7"},
                                     {"tools", "7"},
                                     {"top_logprobs", "3"}})
    CHECK(wrong_in_chat("\"" + std::string(field) + "\":" + value) == field);
  for (const auto& [option, value] : {std::pair{"temperature", "\"hot\""},
                                      {"num_predict", "0"},
                                      {"num_predict", "-3"},
                                      {"repeat_penalty", "0"},
                                      {"stop", "7"},
                                      {"mirostat", "1"},
                                      {"typical_p", "0.5"},
                                      {"tfs_z", "0.5"},
                                      {"penalize_newline", "false"}})
    CHECK(wrong_in_chat("\"options\":{\"" + std::string(option) + "\":" + value + "}") ==
          "options." + std::string(option));
  CHECK(wrong_in_chat(R"("options":{"repeat_last_n":64,"repeat_penalty":1.1})") == "options.repeat_last_n");
  const auto wrong_message = [](const std::string& message) {
    return wrong_field(parse_ollama_chat_request, R"({"messages":[)" + message + "]}");
  };
  CHECK(wrong_field(parse_ollama_chat_request, R"({"messages":7})") == "messages");
  CHECK(wrong_message(R"({"content":"a"})") == "messages[0].role");
  CHECK(wrong_message(R"({"role":"user"})") == "messages[0].content");
  CHECK(wrong_message(R"({"role":"user","content":"a","images":["aGk="]})") == "messages[0].images");
  CHECK(wrong_message(R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]})") ==
        "messages[0].tool_calls[0].function.arguments");
  for (const auto& [field, value] : {std::pair{"context", "[1,2]"},
                                     {"images", "[\"aGk=\"]"},
                                     {"template", "\"t\""},
                                     {"raw", "1"},
                                     {"prompt", "7"}})
    CHECK(wrong_field(parse_ollama_generate_request,
                      R"({"model":"demo",)" +
                          (std::string(field) == "prompt" ? "" : std::string(R"("prompt":"a",)")) + "\"" +
                          field + "\":" + value + "}") == field);
  CHECK(wrong_field(parse_ollama_generate_request, R"({"prompt":"a","raw":true,"system":"s"})") == "system");
  for (const std::string think : {"true", "\"high\"", "\"no level\"", "1"})
    CHECK(wrong_field(parse_ollama_generate_request,
                      R"({"model":"thinker","prompt":"a","raw":true,"think":)" + think + "}") == "think");
  CHECK(generate(R"({"model":"thinker","prompt":"a","raw":true,"think":false})").generation.model == 1);
}

TEST_CASE("ollama: inputs that are too long lose their end unless the client minds") {
  const auto parse = [](const std::string& body) {
    return std::get<ApiEmbeddingRequest>(parse_ollama_embed_request(body, models(), Limits{}));
  };
  const auto request = parse(R"({"model":"minilm:latest","input":["a","b"],"dimensions":2})");
  CHECK(request.use == VectorUse::kOllamaVectors);
  CHECK(request.embedding.inputs.size() == 2);
  CHECK(request.embedding.truncates);
  CHECK(request.dimensions == 2);
  CHECK_FALSE(parse(R"({"input":"a","truncate":false})").embedding.truncates);
  for (const std::string nothing : {R"({"model":"minilm"})", R"({"input":""})", R"({"input":[]})"})
    CHECK(parse(nothing).only_loads);
  const auto old = parse_ollama_embeddings_request(R"({"model":"minilm","prompt":"a"})", models(), Limits{});
  const auto& old_request = std::get<ApiEmbeddingRequest>(old);
  CHECK(std::get<TextPrompt>(old_request.embedding.inputs.at(0)).text == "a");
  CHECK(name_of_input(old_request.embedding, 0) == "prompt");
  for (const auto& [field, body] : {std::pair{"model", R"({"model":"demo","input":"a"})"},
                                    {"dimensions", R"({"input":"a","dimensions":5})"},
                                    {"truncate", R"({"input":"a","truncate":1})"},
                                    {"options", R"({"input":"a","options":7})"},
                                    {"input[1]", R"({"input":["a",7]})"}}) {
    const auto parsed = parse_ollama_embed_request(body, models(), Limits{});
    REQUIRE(std::holds_alternative<ApiError>(parsed));
    CHECK(std::get<ApiError>(parsed).field == field);
  }
}

TEST_CASE("ollama: a chat streams a line for each portion, calls whole, times at the end") {
  OllamaServer server;
  TestClient client = server.client();
  client.send(post_request("/api/chat", chat_with(R"("model":"thinker:latest")")));
  answer_with_calls(server.script());
  const TestResponse response = client.read_response();
  CHECK(response.status == 200);
  CHECK(response.field("Content-Type") == "application/x-ndjson");
  const auto lines = lines_of(response.body);
  REQUIRE(lines.size() == 5);
  for (const auto& line : lines) {
    CHECK(line.at("model") == "thinker:latest");
    CHECK(line.at("created_at").as_string().ends_with("Z"));
    CHECK(line.at("done").as_bool() == (&line == &lines.back()));
    CHECK(line.at("message").at("role") == "assistant");
  }
  CHECK(lines[0].at("message").at("thinking") == "hm");
  CHECK(lines[0].at("message").at("content") == "");
  CHECK(lines[1].at("message").at("content") == "Wait.");
  const auto calls = json::parse(kCalls).as_array();
  CHECK(lines[2].at("message").at("tool_calls") == json::array{calls[0]});
  CHECK(lines[3].at("message").at("tool_calls") == json::array{calls[1]});
  check_end(lines[4]);
}

TEST_CASE("ollama: a chat that is sent whole has the same members") {
  OllamaServer server;
  TestClient client = server.client();
  client.send(post_request("/api/chat", chat_with(R"("stream":false)")));
  answer_with_calls(server.script());
  const TestResponse response = client.read_response();
  CHECK(response.field("Content-Type") == "application/json");
  const auto answer = json::parse(response.body).as_object();
  CHECK(answer.at("message").at("content") == "Wait.");
  CHECK(answer.at("message").at("thinking") == "hm");
  CHECK(answer.at("message").at("tool_calls") == json::parse(kCalls));
  check_end(answer);
}

TEST_CASE("ollama: a generated text is in `response`, streamed and whole") {
  OllamaServer server;
  server.script().on_submit = [&](RequestId id) {
    server.script().answer(id, {"Hel", "lo"}, FinishReason::kLength);
  };
  const auto lines =
      lines_of(server.ask(post_request("/api/generate", R"({"model":"thinker","prompt":"hi"})")).body);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("response") == "Hel");
  CHECK_FALSE(lines[0].contains("message"));
  CHECK(lines[2].at("response") == "");
  CHECK(lines[2].at("done_reason") == "length");
  const auto whole =
      json::parse(server.ask(post_request("/api/generate", R"({"prompt":"hi","stream":false})")).body);
  CHECK(whole.at("response") == "Hello");
  CHECK(whole.at("eval_count") == 2);
}

TEST_CASE("ollama: a long text streams in pieces of one line, with its log-probabilities") {
  OllamaServer server;
  const std::string text(40'000, 'x');
  server.script().on_submit = [&](RequestId id) {
    server.script().deliver(id, Accepted{.prompt_tokens = 5});
    server.script().deliver(
        id,
        TextDelta{
            .text = text, .usage = {}, .tokens = {{.token = {.text = "x", .bytes = "x", .logprob = -0.5F}}}});
    server.script().deliver(id, Finished{.stop_string = {}, .stop_token = {}, .usage = {}});
  };
  const auto lines =
      lines_of(server.ask(post_request("/api/generate", R"({"prompt":"hi","logprobs":true})")).body);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at("response").as_string() == text.c_str());
  CHECK(lines[0].at("logprobs") ==
        json::parse(R"([{"token":"x","logprob":-0.5,"bytes":[120],"top_logprobs":[]}])"));
  CHECK(server.script().submitted(1).request.sampling.wants_logprobs());
}

TEST_CASE("ollama: loading is answered at once, and nothing is run") {
  OllamaServer server;
  const auto chat_answer =
      json::parse(server.ask(post_request("/api/chat", R"({"model":"thinker:latest","messages":[]})")).body);
  CHECK(chat_answer.at("model") == "thinker:latest");
  CHECK(chat_answer.at("message") == json::parse(R"({"role":"assistant","content":""})"));
  CHECK(chat_answer.at("done") == true);
  CHECK(chat_answer.at("done_reason") == "load");
  const auto text_answer =
      json::parse(server.ask(post_request("/api/generate", R"({"model":"thinker"})")).body);
  CHECK(text_answer.at("response") == "");
  const auto vectors = json::parse(server.ask(post_request("/api/embed", R"({"model":"minilm"})")).body);
  CHECK(vectors.at("embeddings") == json::array());
  CHECK(json::parse(server.ask(post_request("/api/embeddings", R"({"prompt":""})")).body) ==
        json::parse(R"({"embedding":[]})"));
  CHECK(server.script().num_submitted() == 0);
}

TEST_CASE("ollama: vectors are lists of numbers") {
  OllamaServer server;
  server.script().on_submit = [&](RequestId id) {
    const auto num = server.script().submitted(id).embedding.inputs.size();
    std::vector<float> vectors = {0.5F, 0.25F, 0.0F, 1.0F, 3.0F, 4.0F, 0.0F, 0.0F};
    vectors.resize(4 * num);
    server.script().deliver(id, Embedded{.vectors = vectors, .size = 4, .prompt_tokens = 6});
  };
  const auto answer = json::parse(
      server.ask(post_request("/api/embed", R"({"model":"minilm:latest","input":["a","b"]})")).body);
  CHECK(answer.at("model") == "minilm:latest");
  CHECK(answer.at("embeddings") == json::parse("[[0.5,0.25,0,1],[3,4,0,0]]"));
  CHECK(answer.at("prompt_eval_count") == 6);
  CHECK(answer.at("total_duration").as_int64() > 0);
  CHECK(server.ask(post_request("/api/embeddings", R"({"prompt":"a"})")).body ==
        R"({"embedding":[0.5,0.25,0,1]})");
}

TEST_CASE("ollama: models are listed with a tag and described") {
  OllamaServer server;
  const auto tags = json::parse(server.ask(get_request("/api/tags")).body).at("models").as_array();
  REQUIRE(tags.size() == 2);
  CHECK(tags[0].at("name") == "thinker:latest");
  CHECK(tags[0].at("model") == "thinker:latest");
  CHECK(tags[0].at("modified_at") == "2023-11-14T22:13:20Z");
  CHECK(tags[0].at("size") == 7'000'000);
  CHECK(tags[0].at("details") ==
        json::parse(R"({"parent_model":"","format":"safetensors","family":"qwen3","families":["qwen3"],)"
                    R"("parameter_size":"3.5M","quantization_level":"BF16"})"));
  CHECK(tags[1].at("capabilities") == json::parse(R"(["embedding"])"));
  const auto running = json::parse(server.ask(get_request("/api/ps")).body).at("models").as_array();
  REQUIRE(running.size() == 2);
  CHECK(running[0].at("size") == 9'000'000);
  CHECK(running[0].at("size_vram") == 0);
  CHECK(running[0].at("context_length") == 2048);
  for (const std::string body : {R"({"model":"thinker"})", R"({"name":"thinker:latest"})"}) {
    const auto shown = json::parse(server.ask(post_request("/api/show", body)).body).as_object();
    CHECK(shown.at("capabilities") == json::parse(R"(["completion","tools","thinking"])"));
    CHECK(shown.at("model_info").at("general.architecture") == "qwen3");
    CHECK(shown.at("model_info").at("qwen3.context_length") == 2048);
    CHECK(shown.at("parameters").as_string().find("temperature 1\n") == 0);
  }
  CHECK(server.ask(post_request("/api/show", R"({"model":"none"})")).status == 404);
}

TEST_CASE("ollama: a name's own tag stays") {
  ServedModelInfo tagged = demo_model(), with_host = demo_model();
  tagged.name = "qwen3:4b";
  with_host.name = "host:80/qwen3";
  const auto list = json::parse(ollama_tags_json(ServedModels({tagged, with_host}))).at("models").as_array();
  CHECK(list[0].at("name") == "qwen3:4b");
  CHECK(list[1].at("name") == "host:80/qwen3:latest");
}

TEST_CASE("ollama: the port says so, and has the other one's API beside it but for the page") {
  OllamaServer server;
  const TestResponse root = server.ask(get_request("/"));
  CHECK(root.body == "Ollama is running");
  CHECK(root.field("Content-Type") == "text/plain; charset=utf-8");
  CHECK(server.ask("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status == 200);
  CHECK(json::parse(server.ask(get_request("/api/version")).body).at("version").is_string());
  CHECK(server.ask(get_request("/v1/models")).status == 200);
  CHECK(server.ask(get_request("/page/main.js")).status == 404);
  CHECK(server.server().ollama_port() != server.port());
  CHECK(RunningServer().server().ollama_port() == 0);
}

TEST_CASE("ollama: on the other port there is nothing of it, and the answer says where it is") {
  OllamaServer server;
  for (const std::string path : {"/api/tags", "/api/version", "/api/chat", "/api/generate", "/api/embed"}) {
    TestClient client(server.port());
    client.send(get_request(path));
    const TestResponse response = client.read_response();
    CHECK(response.status == 404);
    CHECK(response.body.find("--ollama-port") != std::string::npos);
  }
}

TEST_CASE("ollama: errors are one text, in a stream as well") {
  OllamaServer server;
  const auto error_of = [&](const std::string& request, unsigned status) {
    const TestResponse response = server.ask(request);
    CHECK(response.status == status);
    const auto error = json::parse(response.body).as_object();
    CHECK(error.size() == 1);
    return std::string(error.at("error").as_string());
  };
  CHECK(error_of(post_request("/api/chat", R"({"model":"none","messages":[]})"), 404).find("none") !=
        std::string::npos);
  CHECK(error_of(post_request("/api/chat", "{"), 400).size() > 0);
  CHECK(error_of(get_request("/api/chat"), 405).find("/api/chat") == 0);
  CHECK(error_of(post_request("/api/pull", "{}"), 404).find("/api/pull") != std::string::npos);
  CHECK(json::parse(server.ask(get_request("/v1/models/none")).body).at("error").is_object());
  TestClient client = server.client();
  client.send(post_request("/api/chat", chat_with("")));
  const RequestId id = server.script().wait_for_request(1);
  server.script().deliver(id, Accepted{.prompt_tokens = 5});
  server.script().deliver(id, Failed{{.kind = ApiErrorKind::kInternal, .message = "no more"}});
  CHECK(client.read_to_end().find("{\"error\":\"no more\"}\n") != std::string::npos);
}

TEST_CASE("ollama: a body may call itself a form, as curl's do, and keys hold here too") {
  RunningServer server({thinking_model()}, [](ServerOptions& options) {
    options.ollama_port = 0;
    options.api_keys = {{"default", "secret"}};
  });
  const auto ask = [&](const std::string& fields, const std::string& path = "/api/generate") {
    TestClient client(server.server().ollama_port());
    const std::string body = "{}";
    client.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "Content-Length: 2\r\n\r\n" +
                body);
    return client.read_response().status;
  };
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  CHECK(ask(form) == 401);
  CHECK(ask(form + "Authorization: Bearer secret\r\n") == 200);
  CHECK(ask(form + "Authorization: Bearer secret\r\n", "/v1/completions") == 415);
  TestClient client(server.server().ollama_port());
  client.send(get_request("/"));
  CHECK(client.read_response().status == 200);
}

TEST_CASE("ollama: probes tell the state here too, also a bad one") {
  OllamaServer server;
  server.script().status.state = EngineState::kFailed;
  for (const std::string path : {"/ready", "/health"}) {
    const TestResponse refused = server.ask(get_request(path));
    CHECK(refused.status == 503);
    CHECK(json::parse(refused.body).at("status") == "failed");
  }
}

TEST_CASE("ollama: both ports share the room for connections") {
  RunningServer server({thinking_model()}, [](ServerOptions& options) {
    options.ollama_port = 0;
    options.limits.max_connections = 1;
  });
  TestClient first(server.port());
  first.send(get_request("/ping"));
  CHECK(first.read_response().status == 200);
  TestClient second(server.server().ollama_port());
  second.send(get_request("/api/tags"));
  const TestResponse refused = second.read_response();
  CHECK(refused.status == 503);
  CHECK(json::parse(refused.body).at("error").is_string());  // in this port's shape
  TestClient probe(server.server().ollama_port());
  probe.send(get_request("/live"));
  CHECK(probe.read_response().status == 200);
}

TEST_CASE("ollama: a stream that waits sends portions without text") {
  std::string out;
  OllamaWriter writer({.id = "x", .created = 0, .model = "demo", .shape = ResponseShape::kOllamaChat},
                      EventFraming::kPlain);
  writer.heartbeat(out);
  CHECK(out ==
        "{\"model\":\"demo\",\"created_at\":\"1970-01-01T00:00:00Z\",\"message\":{\"role\":\"assistant\","
        "\"content\":\"\"},\"done\":false}\n");
}

TEST_CASE("ollama: a piece of a call alone is no chunk, which would end the body") {
  std::string out;
  OllamaWriter writer({.id = "x", .created = 0, .model = "demo", .shape = ResponseShape::kOllamaChat},
                      EventFraming::kChunked);
  writer.delta(out, TextDelta{.text = "", .usage = {}, .calls = {{.index = 0, .id = "c", .name = "f"}}});
  writer.delta(out, TextDelta{.text = "", .usage = {}, .calls = {{.index = 0, .arguments = "{}"}}});
  CHECK(out.empty());
  writer.finish(out, Finished{.stop_string = {}, .stop_token = {}, .usage = {}});
  CHECK(out.find("\"tool_calls\"") != std::string::npos);
  CHECK(out.ends_with("\r\n0\r\n\r\n"));
}

}  // namespace ollama_test
