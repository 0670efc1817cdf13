// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <thread>

#include "tests/support/sanitizers.hpp"
#include "tests/text/text_data.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using Tokens = std::vector<TokenId>;

json fixture(const std::string& name) { return file_json(fixture_dir() / name / "tokenizer.json"); }

// What loading complains about; empty if it doesn't.
std::string load_error(const json& tokenizer) {
  try {
    load_json(tokenizer);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::string joined_bytes(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::string bytes;
  for (const TokenId token : tokens) bytes += tokenizer.token_bytes(token);
  return bytes;
}

std::vector<std::string> contents(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::vector<std::string> result;
  for (const TokenId token : tokens) result.emplace_back(tokenizer.token_content(token));
  return result;
}

std::string random_text(std::mt19937& random, std::size_t max_length) {
  static const std::vector<std::string> kParts = {
      "the", " ",          "  ",      "\n",      "\r\n",   "world",      "Hello", "12",
      "345", "'s",         "\u00e9",  "e\u0301", "\u4e2d", "\U0001F600", "<",     "|",
      ">",   "<|im_end|>", "<think>", "cat",     "_",      "\t",         "\u00a0"};
  std::string text;
  for (std::size_t i = random() % (max_length + 1); i > 0; --i) {
    text += kParts[random() % kParts.size()];
  }
  return text;
}

// S4: no special token's spelling, whatever surrounds it, yields a special id.
void check_no_specials_from_text(const Tokenizer& tokenizer) {
  std::string all;
  for (std::size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.is_special(static_cast<TokenId>(id))) continue;
    const std::string content(tokenizer.token_content(static_cast<TokenId>(id)));
    all += content;
    for (const std::string& text :
         {content, " " + content + " ", "a" + content + "b", content + content, "x\n" + content}) {
      for (const TokenId token : tokenizer.encode(text)) {
        REQUIRE_MESSAGE(!tokenizer.is_special(token), content);
      }
      const Tokens trusted = tokenizer.encode_with_specials(text);
      CHECK(std::count(trusted.begin(), trusted.end(), static_cast<TokenId>(id)) >= 1);
    }
  }
  for (const TokenId token : tokenizer.encode(all)) REQUIRE(!tokenizer.is_special(token));
}

}  // namespace

TEST_CASE("tokenizer: words are merged as the merges say") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  CHECK(contents(*tokenizer, tokenizer->encode("the world hello 123")) ==
        std::vector<std::string>{"the", "\u0120world", "\u0120", "hello", "\u0120", "12", "3"});
  CHECK(tokenizer->encode("").empty());
}

TEST_CASE("tokenizer: special tokens come from trusted text only") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const TokenId end = *tokenizer->token_id("<|im_end|>");
  CHECK(tokenizer->encode_with_specials("<|im_end|>") == Tokens{end});
  const Tokens from_user = tokenizer->encode("<|im_end|>");
  CHECK(std::count(from_user.begin(), from_user.end(), end) == 0);
  CHECK(joined_bytes(*tokenizer, from_user) == "<|im_end|>");
}

TEST_CASE("tokenizer: a special token must lie wholly in trusted text") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const TokenId end = *tokenizer->token_id("<|im_end|>");
  const std::string text = "a<|im_end|>b<|im_end|>";
  const auto count = [&](std::vector<TextRange> trusted) {
    const Tokens tokens = tokenizer->encode_trusting(text, trusted);
    return std::count(tokens.begin(), tokens.end(), end);
  };
  CHECK(count({{0, text.size()}}) == 2);
  CHECK(count({{1, 11}}) == 1);
  CHECK(count({{2, text.size()}}) == 1);
  CHECK(count({{1, 10}}) == 0);
  CHECK(count({{1, 5}, {6, 11}}) == 0);
}

TEST_CASE("tokenizer: no text of a user yields a special token") {
  for (const char* name : {"byte_level", "sentencepiece"}) {
    CAPTURE(name);
    check_no_specials_from_text(*load_tokenizer(fixture_dir() / name));
  }
}

TEST_CASE("tokenizer: not even merges make a special token") {
  json tokenizer = fixture("byte_level");
  tokenizer["model"]["vocab"]["<|x"] = 400;
  tokenizer["model"]["vocab"]["<|x|>"] = 401;
  tokenizer["model"]["merges"].push_back("<| x");
  tokenizer["model"]["merges"].push_back("<|x |>");
  tokenizer["added_tokens"].push_back({{"id", 401}, {"content", "<|x|>"}, {"special", true}});
  tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}};
  for (const bool ignores_merges : {false, true}) {
    tokenizer["model"]["ignore_merges"] = ignores_merges;
    const auto loaded = load_json(tokenizer);
    CHECK(loaded->encode("<|x|>") == Tokens{400, *loaded->token_id("|>")});
    CHECK(loaded->encode_with_specials("<|x|>") == Tokens{401});
  }
}

TEST_CASE("tokenizer: added tokens that are not special are found in any text") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const TokenId think = *tokenizer->token_id("<think>");
  CHECK(tokenizer->encode("<think>") == Tokens{think});
  CHECK(tokenizer->token_bytes(think) == "<think>");
}

TEST_CASE("tokenizer: an added token spelled <|...|> needs trust though not marked special") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const TokenId role = *tokenizer->token_id("<|role|>");
  CHECK(tokenizer->encode_with_specials("<|role|>") == Tokens{role});
  CHECK(tokenizer->encode("<|role|>").size() > 1);
  CHECK(!tokenizer->is_special(role));
}

TEST_CASE("tokenizer: added tokens take the white space their file gives them") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const TokenId mask = *tokenizer->token_id("<mask>");
  const TokenId role = *tokenizer->token_id("<|role|>");
  const TokenId the = *tokenizer->token_id("the");
  CHECK(tokenizer->encode_with_specials("the \n<mask>the") == Tokens{the, mask, the});
  CHECK(tokenizer->encode_with_specials("the<|role|> \u00a0the") == Tokens{the, role, the});
}

TEST_CASE("tokenizer: single-word added tokens are not found inside words") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const TokenId cat = *tokenizer->token_id("cat");
  const auto count = [&](const std::string& text) {
    const Tokens tokens = tokenizer->encode(text);
    return std::count(tokens.begin(), tokens.end(), cat);
  };
  CHECK(count("cat") == 1);
  CHECK(count("a cat.") == 1);
  CHECK(count("concat") == 0);
  CHECK(count("cat\u00e9") == 0);
  CHECK(count("_cat") == 0);
}

TEST_CASE("tokenizer: any bytes survive the byte-level encoding") {
  json without_normalizer = fixture("byte_level");
  without_normalizer["normalizer"] = nullptr;
  const auto tokenizer = load_json(without_normalizer);
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::size_t i = random() % 40; i > 0; --i) bytes += static_cast<char>(random() % 256);
    REQUIRE(joined_bytes(*tokenizer, tokenizer->encode(bytes)) == bytes);
  }
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, 30);
    REQUIRE(tokenizer->decode(tokenizer->encode(text)) == text);
  }
}

TEST_CASE("tokenizer: any text survives the sentencepiece encoding") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "sentencepiece");
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, 30);
    REQUIRE(tokenizer->decode(tokenizer->encode(text)) == text);
  }
}

TEST_CASE("tokenizer: text is brought into normal form C") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  CHECK(tokenizer->encode("e\u0301") == tokenizer->encode("\u00e9"));
}

TEST_CASE("tokenizer: characters outside the vocabulary become their bytes' tokens") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "sentencepiece");
  CHECK(contents(*tokenizer, tokenizer->encode("\u00fc")) ==
        std::vector<std::string>{"\u2581", "<0xC3>", "<0xBC>"});
}

// Expected are the tokens of Hugging Face's tokenizers.
TEST_CASE("tokenizer: as Gemma's files have it, spaces are marked and nothing is put in front") {
  json tokenizer = fixture("sentencepiece");
  const json space = {{"String", " "}};
  tokenizer["normalizer"] = {{"type", "Replace"}, {"pattern", space}, {"content", "\u2581"}};
  tokenizer["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", space}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  tokenizer["decoder"]["decoders"].erase(3);  // which strips a space in front
  const auto loaded = load_json(tokenizer);
  using Strings = std::vector<std::string>;
  const std::pair<std::string, Strings> cases[] = {
      {"the cat", {"the", "\u2581", "<0x63>", "<0x61>", "t"}},
      {" the  the", {"\u2581the", "\u2581", "\u2581the"}},
      {"a\u00fcb\nthe 12",
       {"<0x61>", "<0xC3>", "<0xBC>", "<0x62>", "<0x0A>", "the", "\u2581", "<0x31>", "<0x32>"}}};
  for (const auto& [text, expected] : cases) {
    CHECK(contents(*loaded, loaded->encode(text)) == expected);
    CHECK(loaded->decode(loaded->encode(text)) == text);
  }
}

TEST_CASE("tokenizer: without byte tokens unknown characters are fused into one") {
  json tokenizer = fixture("sentencepiece");
  tokenizer["model"]["byte_fallback"] = false;
  const auto loaded = load_json(tokenizer);
  CHECK(contents(*loaded, loaded->encode("the\u00fc\u00fcthe")) ==
        std::vector<std::string>{"\u2581the", "<unk>", "the"});
  tokenizer["model"]["fuse_unk"] = false;
  const auto unfused = load_json(tokenizer);
  CHECK(unfused->encode("the\u00fc\u00fcthe").size() == 4);
}

TEST_CASE("tokenizer: Metaspace puts its prefix where its scheme says") {
  json tokenizer = fixture("sentencepiece");
  tokenizer["normalizer"] = nullptr;
  tokenizer["decoder"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  const auto encoded = [&](const std::string& scheme, bool split, const std::string& text) {
    tokenizer["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", split}};
    const auto loaded = load_json(tokenizer);
    return contents(*loaded, loaded->encode_with_specials(text));
  };
  using Strings = std::vector<std::string>;
  CHECK(encoded("always", true, "the the") == Strings{"\u2581the", "\u2581the"});
  CHECK(encoded("never", true, "the the") == Strings{"the", "\u2581the"});
  CHECK(encoded("always", false, "the</s>the") == Strings{"\u2581the", "</s>", "\u2581the"});
  CHECK(encoded("first", true, "the</s>the") == Strings{"\u2581the", "</s>", "the"});
  CHECK(encoded("first", true, "</s>the") == Strings{"</s>", "the"});
}

TEST_CASE("tokenizer: what goes in front of a prompt is read from either file") {
  const auto from_processor = load_tokenizer(fixture_dir() / "byte_level");
  CHECK(from_processor->prefix_tokens() == Tokens{*from_processor->token_id("<|endoftext|>")});
  CHECK(from_processor->eos_token() == from_processor->token_id("<|im_end|>"));
  const auto from_config = load_tokenizer(fixture_dir() / "sentencepiece");
  CHECK(from_config->prefix_tokens() == Tokens{1});
  CHECK(from_config->bos_token() == 1);
}

TEST_CASE("tokenizer: a complete text stands between the post-processor's special tokens") {
  json file = fixture("byte_level");
  const auto special = [](const char* name) { return json{{"SpecialToken", {{"id", name}}}}; };
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special("a"), special("b"), {{"Sequence", {{"id", "A"}}}}, special("c")}}};
  const auto around = [](const Tokenizer& tokenizer, std::size_t max_tokens) {
    EncodingBudget budget(max_tokens);
    return contents(tokenizer, tokenizer.encode_enclosed(budget, "the"));
  };
  using Strings = std::vector<std::string>;
  CHECK(around(*load_json(file), 4) == Strings{"a", "b", "the", "c"});
  CHECK_THROWS_AS(around(*load_json(file), 3), EncodingStopped);
  // A step of a sequence goes around what the steps before it have made.
  const json vocabulary = file["model"]["vocab"];
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {file["post_processor"],
        {{"type", "ByteLevel"}},
        {{"type", "BertProcessing"}, {"cls", {"x", vocabulary["x"]}}, {"sep", {"y", vocabulary["y"]}}}}}};
  CHECK(around(*load_json(file), 6) == Strings{"x", "a", "b", "the", "c", "y"});
  file["post_processor"] = nullptr;
  CHECK(around(*load_json(file), 1) == Strings{"the"});
}

TEST_CASE("tokenizer: tokenizer_config.json's add_eos_token wins over the post-processor") {
  const auto suffix = [](const json& config) {
    json file = fixture("byte_level");
    file["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "a"}}}}}}};
    const TemporaryDirectory directory;
    directory.write("tokenizer.json", file.dump());
    directory.write("tokenizer_config.json", config.dump());
    const auto tokenizer = load_tokenizer(directory.path());
    return contents(*tokenizer, tokenizer->suffix_tokens());
  };
  using Strings = std::vector<std::string>;
  CHECK(suffix({{"eos_token", "b"}}) == Strings{"a"});
  CHECK(suffix({{"eos_token", "b"}, {"add_eos_token", true}}) == Strings{"b"});
  CHECK(suffix({{"eos_token", "b"}, {"add_eos_token", false}}).empty());
  CHECK_THROWS(suffix({{"add_eos_token", true}}));
}

TEST_CASE("tokenizer: a pair of texts has the tokens and types of the post-processor") {
  json file = fixture("byte_level");
  const json vocabulary = file["model"]["vocab"];
  const auto pair_of = [&](const json& processor) {
    file["post_processor"] = processor;
    return load_json(file)->pair_tokens();
  };
  const auto named = [&](const char* type) {
    return json{{"type", type}, {"cls", {"x", vocabulary["x"]}}, {"sep", {"y", vocabulary["y"]}}};
  };
  const TokenId x = vocabulary["x"].get<TokenId>(), y = vocabulary["y"].get<TokenId>();
  const auto bert = pair_of(named("BertProcessing"));
  REQUIRE(bert.has_value());
  CHECK(bert->prefix == Tokens{x});
  CHECK(bert->middle == Tokens{y});
  CHECK(bert->suffix == Tokens{y});
  CHECK(bert->has_types);
  const auto roberta =
      pair_of({{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, named("RobertaProcessing")}}});
  REQUIRE(roberta.has_value());
  CHECK(roberta->middle == Tokens{y, y});
  CHECK_FALSE(roberta->has_types);
  const auto special = [](const char* id, int type) {
    return json{{"SpecialToken", {{"id", id}, {"type_id", type}}}};
  };
  const auto text = [](const char* id, int type) {
    return json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  const auto of_template = [&](const json& parts) {
    return pair_of({{"type", "TemplateProcessing"}, {"single", {text("A", 0)}}, {"pair", parts}});
  };
  const auto usual =
      of_template({special("x", 0), text("A", 0), special("y", 0), text("B", 1), special("y", 1)});
  REQUIRE(usual.has_value());
  CHECK(usual->prefix == Tokens{x});
  CHECK(usual->has_types);
  CHECK_FALSE(of_template({special("x", 0), text("A", 0), text("B", 0)})->has_types);
  // Not what an encoder's network is told: such a tokenizer encodes single texts.
  CHECK_FALSE(of_template({text("A", 0), special("x", 1), text("B", 1)}).has_value());
  CHECK_FALSE(of_template({text("B", 0), text("A", 1)}).has_value());
  CHECK_FALSE(of_template(json::array({text("A", 0)})).has_value());
  CHECK_FALSE(pair_of(nullptr).has_value());
}

TEST_CASE("tokenizer: a pair that is too long loses the end of its longer text first") {
  json file = fixture("byte_level");
  const json vocabulary = file["model"]["vocab"];
  file["post_processor"] = {
      {"type", "BertProcessing"}, {"cls", {"x", vocabulary["x"]}}, {"sep", {"y", vocabulary["y"]}}};
  const auto tokenizer = load_json(file);
  const TokenId x = vocabulary["x"].get<TokenId>(), y = vocabulary["y"].get<TokenId>();
  const Tokens first = {1, 2, 3, 4}, second = {11, 12};
  const auto pair = [&](const Tokens& a, const Tokens& b, std::size_t most) {
    return tokenizer->enclosed_pair(a, b, most).tokens;
  };
  CHECK(pair(first, second, 9) == Tokens{x, 1, 2, 3, 4, y, 11, 12, y});
  CHECK(pair(first, second, 8) == Tokens{x, 1, 2, 3, y, 11, 12, y});
  CHECK(pair(second, first, 8) == Tokens{x, 11, 12, y, 1, 2, 3, y});
  CHECK(pair(first, second, 6) == Tokens{x, 1, 2, y, 11, y});
  CHECK(pair(second, first, 6) == Tokens{x, 11, y, 1, 2, y});
  CHECK(pair(second, second, 6) == Tokens{x, 11, y, 11, 12, y});  // as Hugging Face's tokenizers do
  CHECK(pair(first, second, 3) == Tokens{x, y, y});
  CHECK(tokenizer->enclosed_pair(first, second, 9).second_text == 6);
  CHECK(tokenizer->enclosed_pair(first, second, 6).second_text == 4);
}

TEST_CASE("tokenizer: ids outside the vocabulary say nothing") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  for (const TokenId token : {-1, static_cast<TokenId>(tokenizer->vocabulary_size()), 1 << 30}) {
    CHECK(tokenizer->token_bytes(token).empty());
    CHECK(tokenizer->token_content(token).empty());
    CHECK(!tokenizer->is_special(token));
  }
  CHECK(!tokenizer->token_id("no such token"));
}

TEST_CASE("tokenizer: decoding shows special tokens on demand") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const Tokens tokens = tokenizer->encode_with_specials("hello<|im_end|>");
  CHECK(tokenizer->decode(tokens) == "hello");
  CHECK(tokenizer->decode(tokens, false) == "hello<|im_end|>");
}

TEST_CASE("tokenizer: many threads may encode at once") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 50; ++i) text += random_text(random, 20);
  const Tokens expected = tokenizer->encode(text);
  std::vector<int> num_wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) num_wrong[t] += tokenizer->encode(text) != expected;
      });
    }
  }
  CHECK(num_wrong == std::vector<int>(4, 0));
}

TEST_CASE("tokenizer: broken files are refused with file and reason") {
  const auto error_of = [](const std::string& text) {
    const TemporaryDirectory directory;
    directory.write("tokenizer.json", text);
    try {
      load_tokenizer(directory.path());
      return std::string();
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  const auto says = [](const std::string& error, const std::string& part) {
    return error.find("tokenizer.json") != std::string::npos && error.find(part) != std::string::npos;
  };
  const std::string good = file_text(fixture_dir() / "byte_level" / "tokenizer.json");
  CHECK(says(error_of(""), "malformed or truncated"));
  CHECK(says(error_of(good.substr(0, good.size() / 2)), "malformed or truncated"));
  CHECK(says(error_of("[]"), "expected an object"));
  CHECK(says(error_of(std::string(1000, '[')), "nested deeper"));
  CHECK(says(error_of(R"({"model":{"type":"Unheard"}})"), "Unheard is not supported"));
  CHECK(says(error_of(R"({"model":{"type":3}})"), "type"));
  const TemporaryDirectory empty;
  CHECK_THROWS_WITH_AS(load_tokenizer(empty.path()),
                       (empty.path() / "tokenizer.json").string().append(": no such file").c_str(),
                       std::runtime_error);
}

TEST_CASE("tokenizer: every wrong or unsupported field is named") {
  struct Case {
    std::string pointer;
    std::string value;  // JSON
    std::string complaint;
  };
  const std::vector<Case> cases = {
      {"/model/vocab", "[]", "model.vocab: expected an object"},
      {"/model/vocab/a", "-1", "model.vocab[\"a\"]: expected an id"},
      {"/model/vocab/a", "4294967296", "model.vocab[\"a\"]: expected an id"},
      {"/model/vocab/a", "\"1\"", "expected an id"},
      {"/model/vocab/a", "1", "belongs to both"},
      {"/model/merges", "null", "model.merges: expected an array"},
      {"/model/merges/0", "\"t zz\"", "model.merges[0]: token \"zz\" is not in the vocabulary"},
      {"/model/merges/0", "\"t t\"", "token \"tt\" is not in the vocabulary"},
      {"/model/merges/0", "\"th\"", "expected two tokens"},
      {"/model/merges/0", "[\"t\"]", "expected two tokens, got 1"},
      {"/model/merges/0", "7", "model.merges[0]: expected a string, got number"},
      {"/model/unk_token", "\"nope\"", "model.unk_token: is not in the vocabulary"},
      {"/model/dropout", "0.1", "dropout 0.1 is not supported"},
      {"/model/continuing_subword_prefix", "\"##\"", "model.continuing_subword_prefix: \"##\" is not"},
      {"/model/end_of_word_suffix", "\" w\"", "which is not spelled in bytes, is not supported"},
      {"/model/ignore_merges", "3", "expected true or false"},
      {"/normalizer", R"({"type":"Nmt"})", "normalizer: normalizer Nmt is not"},
      {"/normalizer", R"({"type":"Replace","pattern":{"Regex":"("},"content":""})", "at byte 1"},
      {"/pre_tokenizer", R"({"type":"Unheard"})", "pre_tokenizer: pre-tokenizer Unheard is not"},
      {"/pre_tokenizer/pretokenizers/0/behavior", "\"Sideways\"", "Sideways"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex":"[a&&b]"})", "intersections"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({"String":""})", "empty"},
      {"/pre_tokenizer/pretokenizers/0", R"({"type":"ByteLevel"})", "ByteLevel after ByteLevel"},
      {"/pre_tokenizer/pretokenizers/2", R"({"type":"Metaspace"})", "Metaspace after ByteLevel"},
      {"/post_processor", R"({"type":"Unheard"})", "post_processor: post-processor Unheard is not"},
      {"/post_processor", R"({"type":"BertProcessing"})", "post_processor.cls: expected an array"},
      {"/post_processor", R"({"type":"BertProcessing","cls":["a"]})", "expected a token and its id"},
      {"/post_processor", R"({"type":"BertProcessing","cls":["a",1]})", "as in the vocabulary, got 1"},
      {"/post_processor", R"({"type":"TemplateProcessing","single":[]})", "single: expected a Sequence"},
      {"/post_processor", R"({"type":"TemplateProcessing","single":[{"Sequence":{}},{"Sequence":{}}]})",
       "single[1]: a text that is there twice"},
      {"/post_processor/single/0/SpecialToken/id", "\"nope\"", "\"nope\" is not in the vocabulary"},
      {"/decoder", "null", "ByteLevel in only one"},
      {"/decoder", R"({"type":"BPEDecoder","suffix":""})", "decoder.suffix: an empty string"},
      {"/decoder", R"({"type":"Sequence","decoders":[{"type":"BPEDecoder"},{"type":"ByteLevel"}]})",
       "BPEDecoder with others"},
      {"/decoder", R"({"type":"Unheard"})", "decoder: decoder Unheard is not supported"},
      {"/decoder", R"({"type":"Metaspace"})", "ByteLevel in only one"},
      {"/decoder", R"({"type":"Replace","pattern":{"String":""},"content":"x"})", "decoder.pattern"},
      {"/added_tokens/0/content", "\"\"", "expected 1 to 512 bytes"},
      {"/added_tokens/0/id", "3", "belongs to both"},
      {"/added_tokens/0/content", "\"the\"", "has id"},
      {"/added_tokens/0/special", "1", "added_tokens[0].special: expected true or false"},
      {"/added_tokens/1/content", "\"<|endoftext|>\"", "has two ids"},
  };
  for (const Case& c : cases) {
    json tokenizer = fixture("byte_level");
    tokenizer[json::json_pointer(c.pointer)] = json::parse(c.value);
    const std::string error = load_error(tokenizer);
    CHECK_MESSAGE(error.find(c.complaint) != std::string::npos,
                  c.pointer << " = " << c.value << " gave: " << error);
  }
}

json replace_step(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

json with_normalizer(const std::vector<json>& steps) {
  json tokenizer = fixture("byte_level");
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  return tokenizer;
}

std::string encoding_error(const Tokenizer& tokenizer, const std::string& text) {
  try {
    tokenizer.encode(text);
    return "";
  } catch (const EncodingStopped& stopped) {
    CHECK(stopped.reason() == EncodingStop::kTooMuchWork);
    return stopped.what();
  }
}

TEST_CASE("tokenizer: a normalizer that blows up any text is refused when it is loaded") {
  const std::vector<json> steps(6, replace_step("a", std::string(200, 'a')));
  CHECK(load_error(with_normalizer(steps)).find("the normalizer makes more than") != std::string::npos);
  const std::vector<json> by_expression(
      6, {{"type", "Replace"}, {"pattern", {{"Regex", "[a-z]"}}}, {"content", std::string(200, 'a')}});
  CHECK(load_error(with_normalizer(by_expression)).find("the normalizer makes more than") !=
        std::string::npos);
  const std::vector<json> many(1000, replace_step("a", "b"));
  CHECK(load_error(with_normalizer(many)).find("1000 steps, at most 128") != std::string::npos);
}

TEST_CASE("tokenizer: text that a normalizer blows up beyond a limit is an error, soon") {
  const auto tokenizer = load_json(with_normalizer({replace_step("a", std::string(200, 'a'))}));
  CHECK(encoding_error(*tokenizer, std::string(100, 'a')).empty());
  CHECK(encoding_error(*tokenizer, std::string(100'000, 'b')).empty());
  const std::string error = encoding_error(*tokenizer, std::string(100'000, 'a'));
  CHECK(error == "the normalizer makes more than 465536 bytes of the text");
  const auto prepending = load_json(
      with_normalizer(std::vector<json>(128, {{"type", "Prepend"}, {"prepend", std::string(500, 'x')}})));
  CHECK(encoding_error(*prepending, "hello").empty());
  // Spaces that become three bytes each, as sentencepiece's files have it, always fit.
  const auto ordinary =
      load_json(with_normalizer({{{"type", "Prepend"}, {"prepend", "\u2581"}}, replace_step(" ", "\u2581")}));
  CHECK(encoding_error(*ordinary, std::string(test::fewer_if_sanitized(1 << 20), ' ')).empty());
}

TEST_CASE("tokenizer: a decoder that blows up the vocabulary is refused") {
  json tokenizer = file_json(fixture_dir() / "sentencepiece" / "tokenizer.json");
  const std::vector<json> steps(6, replace_step("l", std::string(200, 'l')));
  tokenizer["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
  CHECK(load_error(tokenizer).find("decoder: makes more than") != std::string::npos);
}

TEST_CASE("tokenizer: a replacement of Metaspace is one character") {
  json tokenizer = file_json(fixture_dir() / "sentencepiece" / "tokenizer.json");
  for (const std::string& replacement : {std::string(), std::string("ab"), std::string(1000, 'x')}) {
    tokenizer["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", replacement}};
    CHECK(load_error(tokenizer).find("expected a character") != std::string::npos);
  }
}

// No match would cut the text otherwise than the tokenizer's makers did, silently.
TEST_CASE("tokenizer: an expression that runs into a limit is an error, not without a match") {
  json tokenizer = fixture("byte_level");
  tokenizer["pre_tokenizer"] = json::parse(R"({"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"Regex":"(?:a+)+b"},"behavior":"Isolated","invert":false},
      {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})");
  const auto loaded = load_json(tokenizer);
  CHECK(encoding_error(*loaded, "aaab aaaa").empty());
  const std::string error = encoding_error(*loaded, std::string(200, 'a') + "c" + std::string(3, 'b'));
  CHECK(error.find("a regular expression of the tokenizer fails on this text") != std::string::npos);
}

TEST_CASE("tokenizer: a damaged file loads or is refused, nothing else") {
  std::mt19937 random(8);
  std::size_t num_loaded = 0;
  for (int round = 0; round < 1500; ++round) {
    const char* name = round % 2 == 0 ? "byte_level" : "sentencepiece";
    std::string text = file_text(fixture_dir() / name / "tokenizer.json");
    for (std::size_t i = 1 + random() % 3; i > 0; --i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = "0123456789\"{}[],:ab"[random() % 19]; break;
        case 1: text.erase(at, 1 + random() % 20); break;
        case 2: text.insert(at, text.substr(random() % text.size(), random() % 20)); break;
        default: text[at] = static_cast<char>(random() % 256);
      }
    }
    const TemporaryDirectory directory;
    directory.write("tokenizer.json", text);
    try {
      const auto tokenizer = load_tokenizer(directory.path());
      ++num_loaded;
      const std::string sample = random_text(random, 20);
      tokenizer->decode(tokenizer->encode(sample), false);
      tokenizer->encode_with_specials(sample);
    } catch (const std::runtime_error& error) {
      REQUIRE(std::string(error.what()).find("tokenizer.json") != std::string::npos);
    }
  }
  CHECK(num_loaded > 0);
}

TEST_CASE("tokenizer: a megabyte of one character takes less than a second") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  json doubling = fixture("byte_level");
  std::string run = "a";
  for (TokenId id = 400; id < 408; ++id) {
    doubling["model"]["merges"].push_back(run + " " + run);
    run += run;
    doubling["model"]["vocab"][run] = id;
  }
  const auto tokenizer_of_runs = load_json(doubling);
  for (const Tokenizer* t : {tokenizer.get(), tokenizer_of_runs.get()}) {
    for (const char c : {'a', ' ', '\n', '<', '1'}) {
      const std::clock_t begin = std::clock();
      t->encode(std::string(1 << 20, c));
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      CAPTURE(c);
#if defined(TROUPE_ASAN) || defined(TROUPE_TSAN) || !defined(NDEBUG)
      CHECK(seconds < 15);
#else
      CHECK(seconds < 1);
#endif
    }
  }
}

}  // namespace troupe
