// SPDX-License-Identifier: Apache-2.0
// The cost of encoding, counted in steps: linear in the text, whatever it says,
// and ended when the budget says so.
#include "text/encoding_budget.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "tests/support/sanitizers.hpp"
#include "tests/text/text_data.hpp"
#include "tests/text/tokenizer/bert_file.hpp"
#include "text/chat_template.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kDemo = TROUPE_SOURCE_DIR "/models/demo";
constexpr const char* kDemoTemplate =
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content | trim + '<|end|>' }}{% endfor %}";

struct Row {
  std::string name;
  std::string part;  // repeated
};

const std::vector<Row>& hostile_texts() {
  static const std::vector<Row> rows = {
      {"one letter", "a"},
      {"spaces", " "},
      {"digits", "7"},
      {"line breaks", "\n"},
      {"spaces and letters", " a"},
      {"no-break spaces", "\u00a0"},
      {"words without a break", "the"},
      {"half of a special token", "<|end|"},
      {"bytes that are not UTF-8", "\xff"},
      {"combining marks in the wrong order", "\u0301\u0316"},
      {"emoji", "\U0001F600"},
      {"ordinary", "My name is Ada, and I count to 12.\n"},
      {"the old marker", "Marker0End"},
  };
  return rows;
}

std::string repeated(const std::string& part, std::size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) text += part;
  return text;
}

// A byte-level vocabulary with runs of a letter of every length that is a power of
// two, so that one giant word is merged as often as can be.
std::shared_ptr<const Tokenizer> tokenizer_of_runs() {
  json tokenizer = file_json(fixture_dir() / "byte_level" / "tokenizer.json");
  std::string run = "a";
  for (TokenId id = 400; id < 412; ++id) {
    tokenizer["model"]["merges"].push_back(run + " " + run);
    run += run;
    tokenizer["model"]["vocab"][run] = id;
  }
  tokenizer["normalizer"] = {{"type", "NFC"}};
  return load_json(tokenizer);
}

std::vector<std::shared_ptr<const Tokenizer>> tokenizers() {
  return {tokenizer_of_runs(), load_tokenizer(fixture_dir() / "sentencepiece"), load_tokenizer(kDemo),
          load_json(bert_file(small_bert_words()))};
}

std::size_t steps_of(const Tokenizer& tokenizer, const std::string& text) {
  EncodingBudget budget;
  tokenizer.encode_within(budget, text, {});
  return budget.num_steps();
}

std::optional<EncodingStop> stop_of(const std::function<void()>& encode) {
  try {
    encode();
    return std::nullopt;
  } catch (const EncodingStopped& stopped) {
    return stopped.reason();
  }
}

}  // namespace

TEST_CASE("encoding budget: twice the text is twice the work, for any text") {
  constexpr std::size_t kSize = test::fewer_if_sanitized(1 << 20);
  for (const auto& tokenizer : tokenizers()) {
    for (const Row& row : hostile_texts()) {
      CAPTURE(row.name);
      const auto once = steps_of(*tokenizer, repeated(row.part, kSize));
      const auto twice = steps_of(*tokenizer, repeated(row.part, 2 * kSize));
      CHECK(once >= kSize);  // counted at all
      CHECK(once < 16 * kSize);
      CHECK(twice < 2 * once + once / 8);
    }
  }
}

TEST_CASE("encoding budget: rendering a conversation is linear in its text") {
  const auto steps = [](std::size_t num_bytes) {
    ChatTemplateInput input;
    for (int i = 0; i < 4; ++i)
      input.messages.push_back(chat_message("user", repeated(" Marker0End", num_bytes / 4)));
    EncodingBudget budget;
    const auto rendered = ChatTemplate::parse(kDemoTemplate).render(input, budget);
    CHECK(std::holds_alternative<std::vector<TemplatePiece>>(rendered));
    return budget.num_steps();
  };
  const auto once = steps(1 << 20);
  CHECK(once >= 1 << 20);
  CHECK(steps(2 << 20) < 2 * once + once / 8);
  CHECK(steps(16 << 20) < 17 * once);
}

TEST_CASE("encoding budget: an interruption is noticed within a few milliseconds' work") {
  for (const auto& tokenizer : tokenizers()) {
    for (const Row& row : hostile_texts()) {
      CAPTURE(row.name);
      const std::string text = repeated(row.part, test::fewer_if_sanitized(1 << 20));
      std::size_t num_questions = 0;
      EncodingBudget counting(EncodingBudget::kUnlimited, [&] { return ++num_questions == 0; });
      tokenizer->encode_within(counting, text, {});
      CHECK(num_questions > 8);
      // Whenever it comes, nothing more is asked, and so nothing more is done.
      for (const std::size_t last : {std::size_t{1}, num_questions / 2, num_questions}) {
        std::size_t num_asked = 0;
        EncodingBudget budget(EncodingBudget::kUnlimited, [&] { return ++num_asked >= last; });
        CHECK(stop_of([&] { tokenizer->encode_within(budget, text, {}); }) == EncodingStop::kInterrupted);
        CHECK(num_asked == last);
      }
    }
  }
}

// From each of a million spaces all the others are looked at: some 10^11 steps.
TEST_CASE("encoding budget: a quadratic expression of a tokenizer can be interrupted") {
  json file = file_json(fixture_dir() / "byte_level" / "tokenizer.json");
  file["pre_tokenizer"] = json::parse(R"({"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"Regex":" +b"},"behavior":"Isolated","invert":false},
      {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})");
  const auto tokenizer = load_json(file);
  std::size_t num_asked = 0;
  EncodingBudget budget(EncodingBudget::kUnlimited, [&] { return ++num_asked >= 4; });
  CHECK(stop_of([&] { tokenizer->encode_within(budget, std::string(1 << 20, ' ') + "ab", {}); }) ==
        EncodingStop::kInterrupted);
  CHECK(num_asked == 4);
}

TEST_CASE("encoding budget: rendering can be interrupted") {
  ChatTemplateInput input;
  input.messages.push_back(chat_message("user", "x"));
  const auto endless = ChatTemplate::parse("{% for i in range(99999) %}{% endfor %}");
  EncodingBudget budget(EncodingBudget::kUnlimited, [] { return true; });
  CHECK(stop_of([&] { endless.render(input, budget); }) == EncodingStop::kInterrupted);
}

TEST_CASE("encoding budget: a text with too many tokens is encoded up to the limit only") {
  for (const auto& tokenizer : tokenizers()) {
    const std::string text = repeated("Name 12, then a word.\n", 1 << 20);
    const auto whole = steps_of(*tokenizer, text);
    EncodingBudget budget(1000);
    CHECK(stop_of([&] { tokenizer->encode_within(budget, text, {}); }) == EncodingStop::kTooManyTokens);
    CHECK(budget.num_steps() < whole / 2);  // a normalizer goes through the whole text
    // … at the limit, and not before.
    const std::string fitting = text.substr(0, 2000);
    const auto num_tokens = tokenizer->encode(fitting).size();
    EncodingBudget exact(num_tokens), narrow(num_tokens - 1), shared(num_tokens);
    CHECK(tokenizer->encode_within(exact, fitting, {}).size() == num_tokens);
    CHECK(stop_of([&] { tokenizer->encode_within(narrow, fitting, {}); }) == EncodingStop::kTooManyTokens);
    shared.set_other_tokens(1);
    CHECK(stop_of([&] { tokenizer->encode_within(shared, fitting, {}); }) == EncodingStop::kTooManyTokens);
  }
}

TEST_CASE("encoding budget: a text that can't fit is refused without being looked at") {
  const auto tokenizer = load_tokenizer(kDemo);
  REQUIRE(tokenizer->max_token_bytes() < 1000);
  const std::string text(tokenizer->max_token_bytes() * 102, 'a');
  EncodingBudget budget(100);
  CHECK(stop_of([&] { tokenizer->encode_within(budget, text, {}); }) == EncodingStop::kTooManyTokens);
  CHECK(budget.num_steps() == 0);
}

TEST_CASE("encoding budget: no token stands for more bytes than is said") {
  std::size_t num_bounded = 0;
  for (const auto& tokenizer : tokenizers()) {
    const std::size_t longest = tokenizer->max_token_bytes();
    if (longest == EncodingBudget::kUnlimited) continue;
    num_bounded += 1;
    for (const Row& row : hostile_texts()) {
      CAPTURE(row.name);
      const std::string text = repeated(row.part, 10'000);
      CHECK(tokenizer->encode(text).size() * longest >= text.size());
    }
  }
  CHECK(num_bounded > 0);
}

TEST_CASE("encoding budget: where text is thrown away, no length of a text is refused") {
  json removing = file_json(fixture_dir() / "byte_level" / "tokenizer.json");
  removing["pre_tokenizer"] = json::parse(R"({"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"String":" "},"behavior":"Removed","invert":false},
      {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})");
  json replacing = file_json(fixture_dir() / "byte_level" / "tokenizer.json");
  replacing["normalizer"] = json::parse(R"({"type":"Replace","pattern":{"Regex":" +"},"content":" "})");
  json stripping = file_json(fixture_dir() / "byte_level" / "tokenizer.json");
  stripping["added_tokens"][0]["rstrip"] = true;
  for (const json& file : {removing, replacing, stripping}) {
    const auto tokenizer = load_json(file);
    CHECK(tokenizer->max_token_bytes() == EncodingBudget::kUnlimited);
  }
  EncodingBudget budget(100);
  CHECK(load_json(removing)->encode_within(budget, std::string(100'000, ' '), {}).empty());
}

}  // namespace troupe
