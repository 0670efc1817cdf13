// SPDX-License-Identifier: Apache-2.0
// Text that a tokenizer encodes in a second of one core's time: at once, and cut into messages of about 2
// KiB, which is what a chat sends. Medians of seven rounds. The text is a file, or the repository's
// documents. Goal: 20 MB/s. Usage: bench_tokenizer MODEL ... [--text FILE]; a model is a directory or a GGUF
// file.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/loading/model_source.hpp"
#include "bench/processor_time.hpp"
#include "bench/statistics.hpp"
#include "tests/support/file_text.hpp"

using namespace troupe;

namespace {

constexpr double kGoal = 20;  // MB/s
constexpr int kRounds = 7;
constexpr std::size_t kMessageBytes = 2048;

std::string documents() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(TROUPE_SOURCE_DIR "/docs"))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& file : files) text += test::file_text(file);
  return text;
}

// Cut in front of a space.
std::vector<std::string_view> messages_of(std::string_view text) {
  std::vector<std::string_view> messages;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' ', kMessageBytes), text.size());
    messages.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return messages;
}

bench::Spread megabytes_a_second(const Tokenizer& tokenizer, const std::vector<std::string_view>& texts) {
  std::size_t num_bytes = 0;
  for (const std::string_view text : texts) num_bytes += text.size();
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = bench::microseconds_used();
    for (const std::string_view text : texts) tokenizer.encode(text);
    rates.push_back(static_cast<double>(num_bytes) / (bench::microseconds_used() - begin));
  }
  return bench::spread_of(rates);
}

void print(const char* name, const bench::Spread& rates) {
  std::printf("  %-22s %6.1f MB/s (%.1f … %.1f)%s\n", name, rates.median, rates.minimum, rates.maximum,
              rates.median < kGoal ? ", below the goal" : "");
}

void measure(const std::string& model, const std::string& text) {
  const auto tokenizer = load_model_tokenizer(model);
  const std::size_t num_tokens = tokenizer->encode(text).size();
  std::printf("%s: %zu entries, %.2f bytes a token\n", std::filesystem::path(model).filename().c_str(),
              tokenizer->vocabulary_size(),
              static_cast<double>(text.size()) / static_cast<double>(num_tokens));
  print("at once", megabytes_a_second(*tokenizer, {text}));
  print("in messages of 2 KiB", megabytes_a_second(*tokenizer, messages_of(text)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    std::string text;
    if (arguments.size() >= 2 && arguments[arguments.size() - 2] == "--text") {
      text = test::file_text(arguments.back());
      arguments.resize(arguments.size() - 2);
    } else {
      text = documents();
    }
    std::printf("%zu bytes of text\n", text.size());
    for (const std::string& model : arguments) measure(model, text);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
