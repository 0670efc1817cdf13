// SPDX-License-Identifier: Apache-2.0
#include "app/generate.hpp"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "app/commands.hpp"
#include "app/end_sink.hpp"
#include "app/loading/model_loading.hpp"
#include "app/loading/model_set.hpp"
#include "app/options/usage_error.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// Writes text as it comes.
class TerminalSink final : public EndSink {
 public:
  void deliver(ResponseEvent event) override {
    if (const auto* delta = std::get_if<TextDelta>(&event)) {
      std::fwrite(delta->text.data(), 1, delta->text.size(), stdout);
      std::fflush(stdout);
    }
    EndSink::deliver(std::move(event));
  }
};

GenerationRequest request_of(const GenerateCommand& command, std::string prompt) {
  GenerationRequest request;
  request.id = "generate";
  if (command.raw) {
    request.prompt = TextPrompt{.text = std::move(prompt), .reads_special_tokens = true};
  } else {
    ChatPrompt chat;
    if (!command.system.empty()) chat.messages.push_back({"system", command.system});
    chat.messages.push_back({"user", std::move(prompt)});
    request.prompt = std::move(chat);
  }
  request.sampling.temperature = static_cast<float>(command.temperature);
  request.sampling.seed = command.seed;
  request.has_seed = true;  // the same call gives the same text
  if (command.max_tokens > 0) request.max_tokens = command.max_tokens;
  return request;
}

}  // namespace

std::string prompt_of(const GenerateCommand& command, std::istream& input, bool is_terminal) {
  if (command.prompt && *command.prompt != "-") return *command.prompt;
  if (!command.prompt && is_terminal)
    throw UsageError("--prompt: expected something to say: troupe generate \"Count from 3 to 7.\"");
  std::string text{std::istreambuf_iterator<char>(input), {}};
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) throw UsageError("--prompt: standard input says nothing");
  return text;
}

int run_generate(const GenerateCommand& command) {
  std::string prompt = prompt_of(command, std::cin, ::isatty(STDIN_FILENO) == 1);
  const auto model = load_first_model(command.options);
  Metrics metrics(model.served.name);
  Engine engine(model.served, model.make_device, engine_options(model.options), metrics);
  const auto sink = std::make_shared<TerminalSink>();
  engine.submit(request_of(command, std::move(prompt)), sink);
  const auto end = sink->wait();
  std::fputc('\n', stdout);
  if (const auto* failed = std::get_if<Failed>(&end)) {
    std::fprintf(stderr, "troupe: %s\n", failed->error.message.c_str());
    return 1;
  }
  const auto& finished = std::get<Finished>(end);
  log(LogLevel::kInfo, "generated",
      {{"prompt_tokens", finished.usage.prompt_tokens},
       {"completion_tokens", finished.usage.completion_tokens},
       {"finish_reason", finished.reason == FinishReason::kLength ? "length" : "stop"}});
  return 0;
}

}  // namespace troupe
