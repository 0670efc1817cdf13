// SPDX-License-Identifier: Apache-2.0
#include "app/perplexity.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <ios>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "app/commands.hpp"
#include "app/end_sink.hpp"
#include "app/loading/model_loading.hpp"
#include "app/loading/model_set.hpp"
#include "app/options/usage_error.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::size_t kDefaultWindow = 1024;
constexpr std::chrono::seconds kEngineStop{5};

// Negative log-probabilities of the tokens that count, in nats.
struct Surprise {
  std::size_t num_tokens = 0;
  double sum = 0.0, sum_of_squares = 0.0;

  void add(double logprob) {
    ++num_tokens;
    sum -= logprob;
    sum_of_squares += logprob * logprob;
  }
  double mean() const { return sum / static_cast<double>(num_tokens); }
  double perplexity() const { return std::exp(mean()); }
  // Of the perplexity, as if tokens were drawn independently.
  double standard_error() const {
    const auto count = static_cast<double>(num_tokens);
    const double variance = std::max(0.0, sum_of_squares / count - mean() * mean());
    return perplexity() * std::sqrt(variance / count);
  }
};

struct WindowSizes {
  std::size_t size = 0, stride = 0;
};

WindowSizes window_sizes(const PerplexityCommand& command, std::size_t context_length) {
  WindowSizes sizes;
  sizes.size = command.window > 0 ? command.window : std::min(kDefaultWindow, context_length);
  sizes.stride = command.stride > 0 ? command.stride : std::max<std::size_t>(1, sizes.size / 2);
  if (sizes.size < 2 || sizes.size > context_length)
    throw UsageError("--window: expected 2 to " + std::to_string(context_length) +
                     " tokens, the context, got " + std::to_string(sizes.size));
  if (sizes.stride > sizes.size)
    throw UsageError("--stride: expected at most the window's " + std::to_string(sizes.size) +
                     " tokens, got " + std::to_string(sizes.stride));
  return sizes;
}

// Throws std::runtime_error with the engine's reason.
void score(Engine& engine, std::span<const TokenId> tokens, const TextWindow& window, Surprise& surprise) {
  const auto some = tokens.subspan(window.begin, window.end - window.begin);
  GenerationRequest request;
  request.id = "perplexity";
  request.prompt = TokenPrompt{{some.begin(), some.end()}};
  request.sampling.temperature = 0.0F;
  request.max_tokens = 0;
  request.prompt_logprobs = 0;
  const auto sink = std::make_shared<EndSink>();
  engine.submit(std::move(request), sink);
  const auto end = sink->wait();
  if (const auto* failed = std::get_if<Failed>(&end)) throw std::runtime_error(failed->error.message);
  const auto& scored = std::get<Finished>(end).prompt_scores->tokens;
  for (std::size_t i = window.first_scored; i < window.end; ++i)
    surprise.add(double{scored.at(i - window.begin).token.logprob});
}

}  // namespace

std::vector<TextWindow> text_windows(std::size_t num_tokens, std::size_t size, std::size_t stride) {
  std::vector<TextWindow> windows;
  std::size_t scored = 0;  // tokens up to the end of the last window
  for (std::size_t begin = 0; scored < num_tokens; begin += stride) {
    const std::size_t end = std::min(num_tokens, begin + size);
    const std::size_t first_scored = std::max(begin + 1, scored);
    scored = end;
    if (first_scored < end) windows.push_back({begin, end, first_scored});
  }
  return windows;
}

std::string text_of(const PerplexityCommand& command, std::istream& input) {
  std::string text;
  if (command.text == "-") {
    text.assign(std::istreambuf_iterator<char>(input), {});
  } else {
    std::ifstream file(command.text, std::ios::binary);
    try {
      text.assign(std::istreambuf_iterator<char>(file), {});
    } catch (const std::ios_base::failure&) {  // a directory opens, but has no bytes
      file.setstate(std::ios::badbit);
    }
    if (!file) throw std::runtime_error("--text: " + command.text + ": can't be read");
  }
  if (text.empty()) throw UsageError("--text: " + command.text + " is empty");
  return text;
}

int run_perplexity(const PerplexityCommand& command) {
  const std::string text = text_of(command, std::cin);
  Options options = command.options;
  options.models = {{.dir = command.model}};
  const auto model = load_first_model(options);
  if (model.served.kind != ModelKind::kGenerative)
    throw std::runtime_error(command.model + ": is an encoder, which predicts no text");
  const WindowSizes sizes = window_sizes(command, model.context_length);

  const Tokenizer& tokenizer = *model.served.tokenizer;
  std::vector<TokenId> tokens = tokenizer.prefix_tokens();
  const std::vector<TokenId> of_text = tokenizer.encode(text);
  tokens.insert(tokens.end(), of_text.begin(), of_text.end());
  const auto windows = text_windows(tokens.size(), sizes.size, sizes.stride);
  if (windows.empty()) throw UsageError("--text: " + command.text + " is one token, expected at least two");

  Metrics metrics(model.served.name);
  Engine engine(model.served, model.make_device, engine_options(model.options), metrics);
  Surprise surprise;
  for (const TextWindow& window : windows) {
    score(engine, tokens, window, surprise);
    log(LogLevel::kInfo, "scored",
        {{"tokens", window.end}, {"of", tokens.size()}, {"perplexity", surprise.perplexity()}});
  }
  std::printf("perplexity     %.4f ± %.4f\n", surprise.perplexity(), surprise.standard_error());
  std::printf("tokens         %zu of %zu, windows of %zu, one every %zu\n", surprise.num_tokens,
              tokens.size(), sizes.size, sizes.stride);
  std::printf("computed on    %s\n", model.device_summary.c_str());
  (void)engine.stop(kEngineStop);
  return 0;
}

}  // namespace troupe
