// SPDX-License-Identifier: Apache-2.0
// Small random transformer encoder-decoders on the CPU device: what CTranslate2 draws with the same
// weights (scripts/translators/make_reference), and the same bits alone, in company and computed again.
#include "gpu/networks/translator.hpp"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/support/file_text.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

std::filesystem::path directory_of(const std::string& name) {
  return std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/translators" / name;
}

struct Translation {
  Tokens source;  // with what ends it
  Tokens answer;  // with what it begins with, which is not drawn
  std::vector<float> logprobs;
};

// A model with its device and what CTranslate2 says of it.
class Translator {
 public:
  explicit Translator(const std::string& name, unsigned num_threads = 2, DataType type = DataType::kF32)
      : reference(json::parse(test::file_text(directory_of(name) / "reference.json"))),
        model_(load_cpu_model(plan_cpu_model(directory_of(name), {.compute_type = type,
                                                                  .num_threads = num_threads,
                                                                  .num_slots = 8,
                                                                  .max_batch_tokens = 160,
                                                                  .max_pages = 64}))),
        device_(model_, {.poison_memory = true}),
        programs_(model_->network, model_->compute_type, model_->largest),
        rule_(*model_->network->source()) {}

  Translation begin(const json& example) const {
    Translation translation{
        .source = example.at("source").get<Tokens>(), .answer = rule_.answer_begins, .logprobs = {}};
    if (rule_.source_end >= 0) translation.source.push_back(rule_.source_end);
    return translation;
  }

  // Sources in one batch, then answers step by step beside each other.
  void translate(std::vector<Translation>& translations, std::size_t num_new) {
    read(translations);
    for (std::size_t step = 0; step < num_new; ++step) draw(translations, 1);
  }
  void read(const std::vector<Translation>& translations) {
    Batch batch{.cell = TranslatorNetwork::kEncoder, .slices = {}, .token_ids = {}, .page_table = {}};
    for (std::size_t i = 0; i < translations.size(); ++i)
      add_slice(batch, i, translations[i].source, 0, translations[i].source.size());
    run(std::move(batch));
  }
  // One token each, by steps of the last num_known tokens of the answers.
  void draw(std::vector<Translation>& translations, std::size_t num_known) {
    Batch batch{.cell = TranslatorNetwork::kDecoder, .slices = {}, .token_ids = {}, .page_table = {}};
    for (std::size_t i = 0; i < translations.size(); ++i) {
      const Translation& translation = translations[i];
      Tokens all = translation.source;
      all.insert(all.end(), translation.answer.begin(), translation.answer.end());
      SequenceSlice& slice = add_slice(batch, i, all, all.size() - num_known, num_known);
      slice.source_tokens = static_cast<std::uint32_t>(translation.source.size());
      slice.sample = true;
      slice.sampling = {.temperature = 0.0F, .top_logprobs = 0};
    }
    const BatchResult result = run(std::move(batch));
    for (std::size_t i = 0; i < translations.size(); ++i) {
      translations[i].answer.push_back(result.tokens[i]);
      translations[i].logprobs.push_back(result.logprobs[i].logprob);
    }
  }

  std::string error_of(Batch batch) {
    batch.page_table = {0, 1, 2, 3};
    for (SequenceSlice& slice : batch.slices) slice.num_pages = 4;
    return submit(std::move(batch)).error;
  }

  json reference;

 private:
  static constexpr std::uint32_t kPagesOfEach = 4;

  SequenceSlice& add_slice(Batch& batch, std::size_t index, const Tokens& tokens, std::size_t context,
                           std::size_t count) const {
    const auto number = static_cast<std::uint32_t>(index);
    batch.slices.push_back({.sequence = index,
                            .slot = number,
                            .num_tokens = static_cast<std::uint32_t>(count),
                            .context_length = static_cast<std::uint32_t>(context),
                            .first_page = number * kPagesOfEach,
                            .num_pages = kPagesOfEach,
                            .sampling = {},
                            .suppressed = {}});
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(context);
    batch.token_ids.insert(batch.token_ids.end(), first, first + static_cast<std::ptrdiff_t>(count));
    for (PageId page = 0; page < kPagesOfEach; ++page) batch.page_table.push_back(page * 8 + number);
    return batch.slices.back();
  }

  BatchResult run(Batch batch) {
    BatchResult result = submit(std::move(batch));
    REQUIRE_MESSAGE(result.error.empty(), result.error);
    return result;
  }
  BatchResult submit(Batch batch) {
    auto program = programs_.find(batch.cell, batch.num_tokens(), batch.num_output_rows());
    return wait_for(device_,
                    device_.submit(std::move(program), std::make_shared<const Batch>(std::move(batch))));
  }

  std::shared_ptr<const CpuModel> model_;
  CpuDevice device_;
  ProgramCache programs_;
  SourceRule rule_;
};

constexpr const char* kNetworks[] = {"marian", "m2m100"};

}  // namespace

TEST_CASE("translators: Marian and M2M100 draw CTranslate2's tokens, as likely as it says") {
  for (const char* name : kNetworks) {
    CAPTURE(name);
    Translator translator(name);
    REQUIRE(translator.reference.size() == 4);
    for (const json& example : translator.reference) {
      std::vector<Translation> alone = {translator.begin(example)};
      const auto expected = example.at("greedy").get<Tokens>();
      translator.translate(alone, expected.size());
      CHECK(Tokens(alone[0].answer.begin() + 1, alone[0].answer.end()) == expected);
      double sum = 0;
      for (const float logprob : alone[0].logprobs) sum += logprob;
      CHECK(std::abs(sum - example.at("logprob").get<double>()) < 1e-4);
    }
  }
}

TEST_CASE("translators: company, threads and an answer that is computed anew change no bit") {
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    for (const char* name : kNetworks) {
      CAPTURE(name);
      Translator single(name, 1, type), translator(name, 2, type);
      std::vector<Translation> together;
      for (const json& example : translator.reference) together.push_back(translator.begin(example));
      std::vector<Translation> again = together;
      translator.translate(together, 12);
      for (std::size_t i = 0; i < together.size(); ++i) {
        std::vector<Translation> alone = {again[i]};
        single.translate(alone, 12);
        CHECK(alone[0].answer == together[i].answer);
        CHECK(alone[0].logprobs == together[i].logprobs);
      }
      // As after a preemption: the source, then all that is known of the answer at once.
      for (std::size_t i = 0; i < again.size(); ++i)
        again[i].answer.assign(together[i].answer.begin(), together[i].answer.end() - 1);
      translator.read(again);
      translator.draw(again, again.front().answer.size());
      for (std::size_t i = 0; i < again.size(); ++i) {
        CHECK(again[i].answer == together[i].answer);
        CHECK(again[i].logprobs.back() == together[i].logprobs.back());
      }
    }
  }
}

TEST_CASE("translators: a device refuses a source in parts, and an answer without its source") {
  Translator translator("marian");
  Batch part{.cell = TranslatorNetwork::kEncoder, .slices = {}, .token_ids = {7}, .page_table = {}};
  part.slices.push_back(
      {.sequence = 3, .num_tokens = 1, .context_length = 4, .sampling = {}, .suppressed = {}});
  CHECK(translator.error_of(part).find("sequence 3: a context in front of a source") != std::string::npos);
  part.slices[0].context_length = 0;
  part.slices[0].sample = true;
  CHECK(translator.error_of(part).find("a token is drawn or taken from the slot") != std::string::npos);
  Batch answer{.cell = TranslatorNetwork::kDecoder, .slices = {}, .token_ids = {7}, .page_table = {}};
  answer.slices.push_back(
      {.sequence = 4, .num_tokens = 1, .context_length = 4, .sampling = {}, .suppressed = {}});
  CHECK(translator.error_of(answer).find("sequence 4: a source of 0 tokens") != std::string::npos);
  answer.slices[0].source_tokens = 5;
  CHECK(translator.error_of(answer).find("a source of 5 tokens before a context of 4") != std::string::npos);
}

}  // namespace troupe
