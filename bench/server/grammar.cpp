// SPDX-License-Identifier: Apache-2.0
// Masks of grammars in processor time: random answers to a handful of schemas, a mask for each token, with
// the first 49,152 and 128,000 tokens of a vocabulary. The first mask includes reading the schema and
// building the automaton, the second series of answers finds what the first has worked out.
// Goals: 30 us in the median and 400 at p99, 1 ms for the first.
// Usage: bench_grammar VOCABULARY.tiktoken (lines of a token in base64 and its rank)
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/processor_time.hpp"
#include "bench/statistics.hpp"
#include "text/grammar/grammar_matcher.hpp"
#include "text/grammar/json_schema.hpp"

using namespace troupe;

namespace {

constexpr double kGoalMedian = 30, kGoalTail = 400, kGoalFirst = 1000;
constexpr int kAnswers = 60;
constexpr std::size_t kLongBytes = 600;

struct NamedSchema {
  const char* name;
  const char* text;
};

constexpr NamedSchema kSchemas[] = {
    {"any object", R"({"type":"object"})"},
    {"tool call",
     R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,
      "maximum":14},"unit":{"enum":["celsius","fahrenheit"]}},"required":["city","days","unit"],
      "additionalProperties":false})"},
    {"optional members", R"({"type":"object","properties":{"id":{"type":"string","format":"uuid"},
      "at":{"type":"string","format":"date-time"},"tags":{"type":"array","items":{"type":"string","maxLength":40}},
      "note":{"type":"string"},"score":{"type":"number","minimum":0,"maximum":1}},"required":["at"]})"},
    {"bounded texts", R"({"type":"object","properties":{"title":{"type":"string","maxLength":80},
      "body":{"type":"string","minLength":20,"maxLength":2000},"code":{"type":"string","pattern":"^[A-Z]{2}[0-9]{4,8}$"}},
      "required":["title","body","code"],"additionalProperties":{"type":"string"}})"},
    {"recursive",
     R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},
      "children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["name","children"],
      "additionalProperties":false}}})"},
};

std::string from_base64(std::string_view text) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(bits >> num_bits & 0xFF);
  }
  return bytes;
}

std::vector<std::string> read_tokens(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> tokens;
  for (std::string line; std::getline(file, line);)
    tokens.push_back(from_base64(line.substr(0, line.find(' '))));
  return tokens;
}

// One answer; microseconds of each mask.
void time_answer(GrammarMatcher matcher, const GrammarVocabulary& vocabulary, std::mt19937_64& random,
                 std::vector<double>& spent) {
  std::vector<std::uint32_t> mask(vocabulary.num_mask_words());
  std::vector<TokenId> tokens;
  for (std::size_t num_bytes = 0; !matcher.is_finished() && num_bytes < 4 * kLongBytes;) {
    const double begin = bench::microseconds_used();
    matcher.allow(mask);
    spent.push_back(bench::microseconds_used() - begin);
    tokens.clear();
    for (std::size_t word = 0; word < mask.size(); ++word)
      for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
        tokens.push_back(static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(bits))));
    if (tokens.empty()) return;
    // Texts end sooner than drawing among all tokens would let them: one in eight tokens closes something.
    if (random() % 8 == 0 || num_bytes > kLongBytes) {
      std::vector<TokenId> closing;
      for (const TokenId token : tokens)
        if (vocabulary.bytes(token).find_first_of("\"]}") != std::string_view::npos) closing.push_back(token);
      if (!closing.empty()) tokens = closing;
    }
    const TokenId token = tokens[random() % tokens.size()];
    if (!matcher.accept(token)) return;
    num_bytes += vocabulary.bytes(token).size();
  }
}

void print_series(const char* name, std::vector<double> spent) {
  std::sort(spent.begin(), spent.end());
  const double p50 = spent[spent.size() / 2], p99 = spent[spent.size() * 99 / 100];
  std::printf(
      "    %-8s %6zu masks: p50 %6.1f us, p99 %7.1f us, most %8.1f us; goal / p50 %.1f, goal / p99 %.1f\n",
      name, spent.size(), p50, p99, spent.back(), kGoalMedian / p50, kGoalTail / p99);
}

void time_schema(const NamedSchema& schema, const std::shared_ptr<const GrammarVocabulary>& vocabulary) {
  std::vector<std::uint32_t> mask(vocabulary->num_mask_words());
  std::vector<double> first;
  for (int i = 0; i < 9; ++i) {
    const double begin = bench::microseconds_used();
    const GrammarMatcher matcher(std::make_shared<const Grammar>(grammar_of_json_schema(schema.text)),
                                 vocabulary);
    matcher.allow(mask);
    first.push_back(bench::microseconds_used() - begin);
  }
  const bench::Spread spread = bench::spread_of(first);
  std::printf("  %s: first mask %.0f us (%.0f to %.0f); goal / first %.1f\n", schema.name, spread.median,
              spread.minimum, spread.maximum, kGoalFirst / spread.median);
  const GrammarMatcher start(std::make_shared<const Grammar>(grammar_of_json_schema(schema.text)),
                             vocabulary);
  std::mt19937_64 random(1);
  for (const char* series : {"fresh", "known"}) {
    std::vector<double> spent;
    for (int i = 0; i < kAnswers; ++i) time_answer(start, *vocabulary, random, spent);
    print_series(series, std::move(spent));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_grammar VOCABULARY.tiktoken\n");
    return 2;
  }
  std::vector<std::string> all = read_tokens(argv[1]);
  if (all.size() < 128'000) {
    std::fprintf(stderr, "expected 128,000 tokens or more in %s, got %zu\n", argv[1], all.size());
    return 2;
  }
  for (const std::size_t size : {std::size_t{49'152}, std::size_t{128'000}}) {
    std::vector<std::string> tokens(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
    tokens.back().clear();
    const double begin = bench::microseconds_used();
    const auto vocabulary = std::make_shared<const GrammarVocabulary>(
        tokens, std::vector<TokenId>{static_cast<TokenId>(size - 1)});
    std::printf("%zu tokens, vocabulary made in %.0f ms\n", size, (bench::microseconds_used() - begin) / 1e3);
    for (const NamedSchema& schema : kSchemas) time_schema(schema, vocabulary);
  }
  return 0;
}
